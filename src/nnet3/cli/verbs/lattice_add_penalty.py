from nnet3.cli import later
from nnet3.cli.lattice_options import lattices_argument, number_option, output_argument
from nnet3.cli.verb import LATTICES, verb


@verb("add a cost per word to lattices", LATTICES, program="lattice-add-penalty")
@number_option("--word-ins-penalty", default=0.0, help="Cost of each word.")
@lattices_argument
@output_argument
def command(lattices: str, output: str, word_ins_penalty: float) -> None:
    """Add a penalty to the cost of the graph of each word.

    \b
    Example:
      nnet3 lattice-add-penalty --word-ins-penalty=0.5 ark:lat.ark ark:-
    """
    later.lattice_reading.write_changed(lattices, output, lambda lattice: lattice.with_word_penalty(word_ins_penalty))
