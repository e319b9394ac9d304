import click

from nnet3.cli import later
from nnet3.cli.options import arguments
from nnet3.cli.verb import TABLES, verb


@verb("the numbers of frames of features", TABLES, program="feat-to-len")
@arguments(source="FEATURES-RSPECIFIER", output="[LENGTHS-WSPECIFIER]")
def command(source: str, output: str) -> None:
    """Write the number of frames of each matrix to a table; without one print their sum.

    \b
    Example:
      nnet3 feat-to-len scp:feats.scp ark,t:-
    """
    total = later.table_inquiry.write_lengths(source, output)
    if not output:
        click.echo(total)
