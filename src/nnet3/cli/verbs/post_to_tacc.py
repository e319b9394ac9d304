from nnet3.cli import later
from nnet3.cli.options import arguments, binary_option, flag
from nnet3.cli.verb import ALIGNING, verb


@verb("sum posteriors by transition-id or pdf", ALIGNING, program="post-to-tacc")
@binary_option
@flag("--per-pdf", help="By pdf; without the last transition-id, as in Kaldi.")
@arguments(model="MODEL", posteriors="POSTERIORS-RSPECIFIER", output="VECTOR-OUT")
def command(model: str, posteriors: str, output: str, binary: bool, per_pdf: bool) -> None:
    """Write the summed weights of posteriors of transition-ids.

    \b
    Example:
      nnet3 post-to-tacc --per-pdf=true final.mdl ark:post.ark pdf_counts.vec
    """
    later.alignment_tables.count_posteriors(model, posteriors, output, binary, per_pdf)
