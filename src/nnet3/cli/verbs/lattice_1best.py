from typing import Any

from nnet3.cli import later
from nnet3.cli.lattice_options import (
    acoustic_scale_option,
    lattices_argument,
    lm_scale_option,
    number_option,
    output_argument,
)
from nnet3.cli.verb import LATTICES, verb


@verb("write the best path of each lattice as a lattice", LATTICES, program="lattice-1best")
@acoustic_scale_option
@lm_scale_option
@number_option("--word-ins-penalty", default=0.0, help="Cost of each word.")
@lattices_argument
@output_argument
def command(**given: Any) -> None:
    """Write the path of least cost of each lattice as a lattice; scales and penalty choose it and change no cost.

    \b
    Example:
      nnet3 lattice-1best --acoustic-scale=0.1 ark:lat.ark ark:best.ark
    """
    later.lattice_reading.write_linear(n=None, **given)
