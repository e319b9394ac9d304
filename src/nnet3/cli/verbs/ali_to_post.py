from nnet3.cli import later
from nnet3.cli.options import arguments
from nnet3.cli.verb import ALIGNING, verb


@verb("alignments as posteriors", ALIGNING, program="ali-to-post")
@arguments(alignments="ALIGNMENTS-RSPECIFIER", output="POSTERIORS-WSPECIFIER")
def command(alignments: str, output: str) -> None:
    """Write alignments as posteriors: the number of each frame has weight 1.

    \b
    Example:
      nnet3 ali-to-post ark:ali.ark ark:post.ark
    """
    later.alignment_tables.to_posteriors(alignments, output)
