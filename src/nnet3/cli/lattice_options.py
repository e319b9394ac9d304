"""Options of the verbs that read lattices."""

from __future__ import annotations

from functools import partial

import click

from nnet3.cli.click_types import click_type
from nnet3.cli.options import Decorator
from nnet3.text.values import Number

number_option = partial(click.option, type=click_type(Number()), show_default=True)
acoustic_scale_option: Decorator = number_option("--acoustic-scale", default=1.0, help="Of acoustic costs.")
lm_scale_option: Decorator = number_option("--lm-scale", default=1.0, help="Of costs of the graph.")
lattices_argument: Decorator = click.argument("lattices", metavar="LATTICE-RSPECIFIER")
output_argument: Decorator = click.argument("output", metavar="LATTICE-WSPECIFIER")
