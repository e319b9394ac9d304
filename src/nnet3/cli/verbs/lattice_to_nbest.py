from typing import Any

from nnet3.cli import later
from nnet3.cli.lattice_options import acoustic_scale_option, lattices_argument, lm_scale_option, output_argument
from nnet3.cli.options import whole_number
from nnet3.cli.verb import LATTICES, verb


@verb("write the best paths of each lattice as lattices", LATTICES, program="lattice-to-nbest")
@acoustic_scale_option
@lm_scale_option
@whole_number("--n", least=1, default=1, help="Paths of each lattice.")
@lattices_argument
@output_argument
def command(**given: Any) -> None:
    """Write so many paths of least cost of each lattice as lattices, the best one first. Their keys are that of the
    lattice and -1, -2 ...

    \b
    Example:
      nnet3 lattice-to-nbest --n=10 --acoustic-scale=0.1 ark:lat.ark ark:nbest.ark
    """
    later.lattice_reading.write_linear(word_ins_penalty=0.0, **given)
