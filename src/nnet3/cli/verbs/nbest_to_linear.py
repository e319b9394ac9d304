from typing import Any

from nnet3.cli import later
from nnet3.cli.options import arguments
from nnet3.cli.verb import LATTICES, verb


@verb("write the parts of lattices of one path", LATTICES, program="nbest-to-linear")
@arguments(
    lattices="NBEST-RSPECIFIER",
    alignments="ALIGNMENTS-WSPECIFIER",
    words="[WORDS-WSPECIFIER",
    graph_costs="[LM-COSTS-WSPECIFIER",
    acoustic_costs="[ACOUSTIC-COSTS-WSPECIFIER]]]",
)
def command(**given: Any) -> None:
    """Write transition-ids, words, costs of the graph and acoustic costs of lattices with one path each, such as
    `nnet3 lattice-1best` and `nnet3 lattice-to-nbest` write.

    \b
    Example:
      nnet3 nbest-to-linear ark:best.ark ark:ali.ark ark,t:words.txt ark,t:lm.txt ark,t:acoustic.txt
    """
    later.lattice_reading.write_parts(**given)
