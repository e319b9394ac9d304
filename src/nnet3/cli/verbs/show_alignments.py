import click

from nnet3.cli import later
from nnet3.cli.options import arguments
from nnet3.cli.verb import ALIGNING, verb


@verb("print alignments phone by phone", ALIGNING, program="show-alignments")
@arguments(symbols="PHONES.TXT", model="MODEL", alignments="ALIGNMENTS-RSPECIFIER")
def command(symbols: str, model: str, alignments: str) -> None:
    """Print alignments: the transition-ids of each phone in brackets, and the names of the phones below.

    \b
    Example:
      nnet3 show-alignments phones.txt final.mdl ark:ali.ark
    """
    for line in later.alignment_tables.shown(symbols, model, alignments):
        click.echo(line)
