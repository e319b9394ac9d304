"""Options of verbs that compute the objective of sequence training, with Kaldi's names."""

from __future__ import annotations

import click

from nnet3.cli.egs_options import all_of
from nnet3.cli.options import FiniteFloat

chain_options = all_of(
    [
        click.option(
            "--leaky-hmm-coefficient",
            type=FiniteFloat(0.0),
            default=1e-5,
            show_default=True,
            help="Share of a state's probability that goes to where sequences begin, between frames; recipes: 0.1.",
        ),
        click.option(
            "--xent-regularize",
            type=FiniteFloat(0.0),
            default=0.0,
            show_default=True,
            help="Scale of the cross-entropy of the output NAME-xent; recipes: 0.1.",
        ),
        click.option(
            "--l2-regularize", type=FiniteFloat(0.0), default=0.0, show_default=True, help="On the output itself."
        ),
        click.option(
            "--out-of-range-regularize",
            type=FiniteFloat(0.0),
            default=0.01,
            show_default=True,
            help="Pulls outputs beyond -30 .. 30 back.",
        ),
        click.option(
            "--lwf-den-scale",
            type=FiniteFloat(0.0),
            default=0.0,
            show_default=True,
            help="End to end: more of the denominator's derivative.",
        ),
        click.option("--numerator-graph-threads", type=int, hidden=True, expose_value=False),
    ]
)
