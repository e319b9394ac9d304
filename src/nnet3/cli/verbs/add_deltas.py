from nnet3.cli import later
from nnet3.cli.options import arguments, whole_number
from nnet3.cli.verb import TABLES, verb


@verb("add differences in time to features", TABLES, program="add-deltas")
@whole_number("--delta-order", "order", least=0, default=2, help="Differences of differences up to this order.")
@whole_number("--delta-window", "window", least=1, default=2, help="Frames to each side.")
@whole_number("--truncate", "columns", least=0, default=0, help="Take so many first columns only (0: all).")
@arguments(source="FEATURES-RSPECIFIER", output="FEATURES-WSPECIFIER")
def command(source: str, output: str, order: int, window: int, columns: int) -> int:
    """Add first, second, ... differences in time to features.

    \b
    Example:
      nnet3 add-deltas scp:mfcc.scp ark:deltas.ark
    """
    return later.feature_tables.add_deltas(source, output, order, window, columns)
