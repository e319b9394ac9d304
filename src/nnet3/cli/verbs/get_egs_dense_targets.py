"""`nnet3 get-egs-dense-targets`: examples of features and matrices (Kaldi: nnet3-get-egs-dense-targets)."""

from __future__ import annotations

import click

from nnet3.cli import later
from nnet3.cli.click_types import integer
from nnet3.cli.declared import takes
from nnet3.cli.egs_options import ivectors_option
from nnet3.cli.verb import EXAMPLES, verb
from nnet3.options import MakingOptions


@verb("make training examples of features and target matrices", EXAMPLES, program="nnet3-get-egs-dense-targets")
@takes("options", MakingOptions)
@ivectors_option
@click.option("--num-targets", type=integer(), default=-1, help="Columns that target matrices must have (-1: any).")
@click.argument("features", metavar="FEATURES-RSPECIFIER")
@click.argument("targets", metavar="TARGETS-RSPECIFIER")
@click.argument("output", metavar="EGS-WSPECIFIER")
def command(
    features: str, targets: str, output: str, online_ivectors: str | None, num_targets: int, options: MakingOptions
) -> None:
    """As get-egs, with a row of a matrix as what each output frame is to be, for instance for a quadratic objective.

    \b
    Example:
      nnet3 get-egs-dense-targets --left-context=12 --right-context=9 scp:feats.scp ark:snrs.ark ark:egs.ark
    """
    tables = later.get_egs_tables.MakingTables(features, targets, online_ivectors, output)
    later.get_egs_tables.make_from_matrices(tables, None if num_targets < 0 else num_targets, options)
