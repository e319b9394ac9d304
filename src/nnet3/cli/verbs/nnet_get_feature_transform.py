from typing import Any

import click

from nnet3.cli import later
from nnet3.cli.declared import takes
from nnet3.cli.options import arguments, binary_option
from nnet3.cli.verb import EXAMPLES, verb
from nnet3.options import FeatureTransformOptions


@verb("estimate an LDA-like transform", EXAMPLES, program="nnet-get-feature-transform")
@binary_option
@takes("options", FeatureTransformOptions)
@click.option(
    "--write-cholesky",
    "cholesky",
    default="",
    metavar="FILE",
    help="Where to write the Cholesky factor of the covariance within.",
)
@click.option(
    "--write-within-covar", "within", default="", metavar="FILE", help="Where to write the covariance within classes."
)
@arguments(output="MATRIX-OUT", inputs="LDA-STATS-IN...")
def command(**given: Any) -> None:
    """Estimate a transform of statistics that acc-lda-stats has written: LDA, whose rows count less where classes
    differ little.

    \b
    Example:
      nnet3 nnet-get-feature-transform lda.mat lda_stats
    """
    later.lda_of_egs.write_transform(**given)
