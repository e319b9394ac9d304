import click

from nnet3.cli import later
from nnet3.cli.options import arguments, whole_number
from nnet3.cli.verb import TABLES, verb


@verb("put features of several tables side by side", TABLES, program="paste-feats")
@whole_number("--length-tolerance", "tolerance", least=0, default=0, help="Frames by which lengths may differ.")
@arguments(names="FEATURES-RSPECIFIER... FEATURES-WSPECIFIER")
def command(names: tuple[str, ...], tolerance: int) -> int:
    """Put features of several tables side by side, for the utterances that all of them have. Of different lengths the
    shortest counts.

    \b
    Example:
      nnet3 paste-feats --length-tolerance=2 scp:mfcc.scp scp:pitch.scp ark:both.ark
    """
    *sources, output = names
    if len(sources) < 2:
        raise click.UsageError("give at least two tables of features, and the one to write")
    return later.feature_tables.paste(sources, output, tolerance)
