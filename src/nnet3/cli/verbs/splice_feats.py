from nnet3.cli import later
from nnet3.cli.options import arguments, whole_number
from nnet3.cli.verb import TABLES, verb


@verb("put frames and their neighbours side by side", TABLES, program="splice-feats")
@whole_number("--left-context", "left", least=0, default=4, help="Frames before.")
@whole_number("--right-context", "right", least=0, default=4, help="Frames behind.")
@arguments(source="FEATURES-RSPECIFIER", output="FEATURES-WSPECIFIER")
def command(source: str, output: str, left: int, right: int) -> int:
    """Put each frame between its neighbours; the first and the last are repeated at the ends.

    \b
    Example:
      nnet3 splice-feats --left-context=3 --right-context=3 scp:mfcc.scp ark:spliced.ark
    """
    return later.feature_tables.splice(source, output, left, right)
