"""Options that verbs about training examples share."""

from __future__ import annotations

import click

from nnet3.cli.declared import takes
from nnet3.cli.options import all_of, arguments, number
from nnet3.options import CopyingOptions
from nnet3.text.values import at_least

normalization_scale_option = number(
    "--normalization-fst-scale", rule=at_least(0), default=1.0, help="Of the costs of the normalization graph."
)
ivectors_option = click.option(
    "--online-ivectors", "--ivectors", "online_ivectors", metavar="RSPECIFIER", help="Matrices of ivectors."
)
rand_prune_option = number(
    "--rand-prune",
    rule=at_least(0),
    default=0.0,
    help="Weights below it become it or 0, at random, for speed; 0: all stay.",
)
#: The options and arguments of verbs that copy examples with changes.
copying_options = all_of(
    takes("options", CopyingOptions),
    click.option("--weights", metavar="RSPECIFIER", help="A number per key, by which supervision is multiplied."),
    click.option("--outputs", metavar="RSPECIFIER", help="A word per key, the new name of 'output'."),
    arguments(examples="EGS-RSPECIFIER", outputs_to_write="EGS-WSPECIFIER..."),
)
