import click

from nnet3.cli import later
from nnet3.cli.options import arguments, binary_option, flag
from nnet3.cli.verb import TABLES, verb


@verb("sum the vectors of a table, of several tables, or in files", TABLES, program="vector-sum")
@binary_option
@flag("--average", help="The mean of the vectors of one table.")
@arguments(names="IN... OUT")
def command(names: tuple[str, ...], binary: bool, average: bool) -> None:
    """Sum vectors: all of a table into a file; those of equal keys of several tables into a table; those in files into
    a file. --binary is about a file.

    \b
    Examples:
      nnet3 vector-sum ark:sums.ark post.1.vec
      nnet3 vector-sum post.1.vec post.2.vec post.vec
    """
    if len(names) < 2:
        raise click.UsageError("give at least one table or file to read, and the one to write")
    later.vector_sums.sum_vectors(names[:-1], names[-1], binary, average)
