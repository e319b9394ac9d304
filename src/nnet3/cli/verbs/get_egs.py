"""`nnet3 get-egs`: examples of features and posteriors (Kaldi: nnet3-get-egs)."""

from __future__ import annotations

import click

from nnet3.cli import later
from nnet3.cli.click_types import integer
from nnet3.cli.declared import takes
from nnet3.cli.egs_options import ivectors_option
from nnet3.cli.options import KALDI_BOOL
from nnet3.cli.verb import EXAMPLES, verb
from nnet3.options import MakingOptions


@verb("make training examples of features and posteriors", EXAMPLES, program="nnet3-get-egs")
@takes("options", MakingOptions)
@ivectors_option
@click.option("--num-pdfs", type=integer(1), required=True, help="Columns of the supervision.")
@click.option(
    "--pdf-alignments",
    type=KALDI_BOOL,
    default=False,
    help="The second table has vectors of integers, the pdf of each frame, not posteriors.",
)
@click.argument("features", metavar="FEATURES-RSPECIFIER")
@click.argument("posteriors", metavar="PDF-POSTERIORS-RSPECIFIER")
@click.argument("output", metavar="EGS-WSPECIFIER")
def command(
    features: str,
    posteriors: str,
    output: str,
    online_ivectors: str | None,
    num_pdfs: int,
    pdf_alignments: bool,
    options: MakingOptions,
) -> None:
    """Cut utterances into chunks and make a training example of each: input with context, ivector, and posteriors of
    pdfs as supervision, one frame of them per output frame. What cannot be used is reported and left out.

    \b
    Example:
      nnet3 get-egs --num-pdfs=2658 --left-context=12 --right-context=9 --num-frames=8 scp:feats.scp \\
        "ark:ali-to-pdf final.mdl ark:ali.ark ark:- | ali-to-post ark:- ark:- |" ark:egs.ark
    """
    tables = later.get_egs_tables.MakingTables(features, posteriors, online_ivectors, output)
    later.get_egs_tables.make_from_posteriors(tables, num_pdfs, pdf_alignments, options)
