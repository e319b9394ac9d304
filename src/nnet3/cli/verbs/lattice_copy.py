from nnet3.cli import later
from nnet3.cli.lattice_options import lattices_argument, output_argument
from nnet3.cli.options import flag
from nnet3.cli.verb import LATTICES, verb


@verb("copy lattices", LATTICES, program="lattice-copy")
@flag("--write-compact", default=True, help="Write acceptors of words.")
@lattices_argument
@output_argument
def command(lattices: str, output: str, write_compact: bool) -> None:
    """Copy lattices from binary to text or back, and, with --write-compact=false, to transducers from transition-ids to
    words. Both kinds are read.

    \b
    Example:
      nnet3 lattice-copy "ark:gunzip -c lat.1.gz |" ark,t:-
    """
    later.lattice_reading.write_changed(lattices, output, lambda lattice: lattice, write_compact)
