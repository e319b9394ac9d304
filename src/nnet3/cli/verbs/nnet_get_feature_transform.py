"""`nnet3 nnet-get-feature-transform`: an LDA-like transform (Kaldi: nnet-get-feature-transform)."""

from __future__ import annotations

import click

from nnet3.cli import later
from nnet3.cli.declared import takes
from nnet3.cli.options import binary_option
from nnet3.cli.verb import EXAMPLES, verb
from nnet3.options import FeatureTransformOptions


@verb("estimate an LDA-like transform", EXAMPLES, program="nnet-get-feature-transform")
@binary_option
@takes("options", FeatureTransformOptions)
@click.option(
    "--write-cholesky", default="", metavar="FILE", help="Where to write the Cholesky factor of the covariance within."
)
@click.option("--write-within-covar", default="", metavar="FILE", help="Where to write the covariance within classes.")
@click.argument("output", metavar="MATRIX-OUT")
@click.argument("inputs", metavar="LDA-STATS-IN...", nargs=-1, required=True)
def command(
    output: str,
    inputs: tuple[str, ...],
    binary: bool,
    options: FeatureTransformOptions,
    write_cholesky: str,
    write_within_covar: str,
) -> None:
    """Estimate a transform of statistics that acc-lda-stats has written: LDA, whose rows count less where classes
    differ little.

    \b
    Example:
      nnet3 nnet-get-feature-transform lda.mat lda_stats
    """
    later.lda_of_egs.write_transform(inputs, output, binary, options, write_cholesky, write_within_covar)
