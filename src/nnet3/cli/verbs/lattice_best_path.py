from typing import Any

import click

from nnet3.cli import later
from nnet3.cli.lattice_options import acoustic_scale_option, lattices_argument, lm_scale_option
from nnet3.cli.options import arguments
from nnet3.cli.verb import LATTICES, verb


@verb("write the words of the best path of each lattice", LATTICES, program="lattice-best-path")
@acoustic_scale_option
@lm_scale_option
@click.option("--word-symbol-table", metavar="FILE", help="Words and their numbers: print the words of each lattice.")
@lattices_argument
@arguments(words="[WORDS-WSPECIFIER", alignments="[ALIGNMENTS-WSPECIFIER]]")
def command(**given: Any) -> None:
    """Write words and transition-ids of the path of least cost of each lattice, and say what it costs.

    \b
    Example:
      nnet3 lattice-best-path --acoustic-scale=0.1 "ark:gunzip -c lat.1.gz |" ark,t:words.txt
    """
    later.lattice_reading.write_best_paths(**given)
