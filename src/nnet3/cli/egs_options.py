"""Options that verbs about training examples share."""

from __future__ import annotations

import click

from nnet3.cli.declared import click_type
from nnet3.cli.options import KALDI_BOOL, Decorator, all_of
from nnet3.text.values import Number, at_least

_FRAMES = click.IntRange(0)

srand_option = click.option("--srand", "seed", type=int, default=0, show_default=True, help="Seed of random choices.")
normalization_scale_option = click.option(
    "--normalization-fst-scale",
    type=click_type(Number(at_least(0))),
    default=1.0,
    show_default=True,
    help="Of the costs of the normalization graph.",
)
egs_arguments = (
    click.argument("examples", metavar="EGS-RSPECIFIER"),
    click.argument("output", metavar="EGS-WSPECIFIER"),
)


ivectors_option = click.option(
    "--online-ivectors", "--ivectors", "online_ivectors", metavar="RSPECIFIER", help="Matrices of ivectors."
)


def merging_options(default_size: str) -> Decorator:
    """Of verbs that merge examples."""
    return all_of(
        [
            click.option(
                "--minibatch-size",
                default=default_size,
                show_default=True,
                metavar="RULE",
                help="Sizes and ranges as 64,128 or 1:64; by size of example as 128=64/256=40,30.",
            ),
            click.option(
                "--compress", type=KALDI_BOOL, default=False, help="Compress full matrices; for what goes to disk."
            ),
            click.option("--measure-output-frames", type=KALDI_BOOL, hidden=True, expose_value=False),
            click.option("--discard-partial-minibatches", type=KALDI_BOOL, hidden=True, expose_value=False),
            *egs_arguments,
        ]
    )


shuffling_options = all_of(
    [
        srand_option,
        click.option(
            "--buffer-size", type=_FRAMES, default=0, show_default=True, help="Examples held in memory (0: all)."
        ),
        *egs_arguments,
    ]
)

subset_options = all_of(
    [
        srand_option,
        click.option("--n", "count", type=click.IntRange(1), default=1000, show_default=True, help="How many."),
        click.option(
            "--randomize-order", type=KALDI_BOOL, default=True, show_default=True, help="Put them in random order."
        ),
        *egs_arguments,
    ]
)

copying_options = all_of(
    [
        click.option("--random", type=KALDI_BOOL, default=False, help="Outputs at random, not in turn."),
        click.option("--keep-proportion", type=float, default=1.0, show_default=True, help="Copies per example."),
        srand_option,
        click.option("--frame-shift", type=int, default=0, help="Added to every t but the ivector's."),
        click.option("--left-context", type=click.IntRange(-1), default=-1, help="Left context to keep (-1: all)."),
        click.option("--right-context", type=click.IntRange(-1), default=-1, help="Right context to keep (-1: all)."),
        click.option("--weights", metavar="RSPECIFIER", help="A number per key, by which supervision is multiplied."),
        click.option("--outputs", metavar="RSPECIFIER", help="A word per key, the new name of 'output'."),
        click.argument("examples", metavar="EGS-RSPECIFIER"),
        click.argument("outputs_to_write", nargs=-1, required=True, metavar="EGS-WSPECIFIER..."),
    ]
)
