import click

from nnet3.cli import later
from nnet3.cli.options import arguments, whole_number
from nnet3.cli.verb import TABLES, verb


@verb("take every n-th frame of features, or each n times", TABLES, program="subsample-feats")
@whole_number("--n", "step", default=1, help="Every n-th frame; -n: each frame n times.")
@whole_number("--offset", least=0, default=0, help="The first frame to take, from 0.")
@arguments(source="FEATURES-RSPECIFIER", output="FEATURES-WSPECIFIER")
def command(source: str, output: str, step: int, offset: int) -> int:
    """Take every n-th frame of features, or, with --n=-3, each frame three times.

    \b
    Example:
      nnet3 subsample-feats --n=3 --offset=1 scp:feats.scp ark:fewer.ark
    """
    if step == 0:
        raise click.UsageError("--n=0: expected a number of frames, such as 3, or -3")
    if step < 0 and offset:
        raise click.UsageError("--offset is for --n > 0")
    return later.feature_tables.subsample(source, output, step, offset)
