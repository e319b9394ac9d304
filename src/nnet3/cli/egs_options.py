"""Options that verbs about training examples share."""

from __future__ import annotations

import click

from nnet3.cli.click_types import click_type
from nnet3.cli.declared import takes
from nnet3.cli.options import all_of
from nnet3.options import CopyingOptions
from nnet3.text.values import Number, at_least

normalization_scale_option = click.option(
    "--normalization-fst-scale",
    type=click_type(Number(at_least(0))),
    default=1.0,
    show_default=True,
    help="Of the costs of the normalization graph.",
)
ivectors_option = click.option(
    "--online-ivectors", "--ivectors", "online_ivectors", metavar="RSPECIFIER", help="Matrices of ivectors."
)
rand_prune_option = click.option(
    "--rand-prune",
    type=click_type(Number(at_least(0))),
    default=0.0,
    show_default=True,
    help="Weights below it become it or 0, at random, for speed; 0: all stay.",
)
#: The options and arguments of verbs that copy examples with changes.
copying_options = all_of(
    [
        takes("options", CopyingOptions),
        click.option("--weights", metavar="RSPECIFIER", help="A number per key, by which supervision is multiplied."),
        click.option("--outputs", metavar="RSPECIFIER", help="A word per key, the new name of 'output'."),
        click.argument("examples", metavar="EGS-RSPECIFIER"),
        click.argument("outputs_to_write", nargs=-1, required=True, metavar="EGS-WSPECIFIER..."),
    ]
)
