import click

from nnet3.cli import later
from nnet3.cli.options import arguments
from nnet3.cli.verb import TABLES, verb


@verb("the dimension of features", TABLES, program="feat-to-dim")
@arguments(source="FEATURES-RSPECIFIER")
@click.argument("output", metavar="[OUT]", required=False, default="-")
def command(source: str, output: str) -> None:
    """Write the number of columns of the first matrix of a table to a file, or of all to a table.

    \b
    Example:
      nnet3 feat-to-dim scp:feats.scp -
    """
    later.table_inquiry.write_dims(source, output)
