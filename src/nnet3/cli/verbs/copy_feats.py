import click

from nnet3.cli import later
from nnet3.cli.options import arguments, binary_option, flag, whole_number
from nnet3.cli.verb import TABLES, verb


@verb("copy features, compressed or not", TABLES, program="copy-feats")
@binary_option
@flag("--compress", help="Write compressed matrices.")
@whole_number(
    "--compression-method",
    "method",
    least=1,
    bits=7,
    default=1,
    help="How --compress does it: 1: by the number of rows; 2: speech features; 3 to 7: fixed-size codes.",
)
@click.option("--write-num-frames", "lengths", default="", metavar="WSPECIFIER", help="Table of numbers of frames.")
@arguments(source="IN", output="OUT")
def command(source: str, output: str, binary: bool, compress: bool, method: int, lengths: str) -> None:
    """Copy a table of features, or one matrix in a file. --binary is about a file.

    \b
    Example:
      nnet3 copy-feats --compress=true --write-num-frames=ark,t:utt2num_frames scp:feats.scp ark,scp:out.ark,out.scp
    """
    later.table_inquiry.copy_features(source, output, binary, method if compress else None, lengths)
