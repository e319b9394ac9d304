"""Options that verbs about training examples share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from nnet3.cli.options import KALDI_BOOL, FiniteFloat

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]
_FRAMES = click.IntRange(0)

srand_option = click.option("--srand", "seed", type=int, default=0, show_default=True, help="Seed of random choices.")
normalization_scale_option = click.option(
    "--normalization-fst-scale",
    type=FiniteFloat(0.0),
    default=1.0,
    show_default=True,
    help="Of the costs of the normalization graph.",
)
egs_arguments = (
    click.argument("examples", metavar="EGS-RSPECIFIER"),
    click.argument("output", metavar="EGS-WSPECIFIER"),
)


def all_of(decorators: Sequence[Decorator]) -> Decorator:
    """One decorator that does what all of them do, the first one outermost."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return decorate


chunk_options = all_of(
    [
        click.option("--left-context", type=_FRAMES, default=0, help="Frames of input at the left of a chunk."),
        click.option("--right-context", type=_FRAMES, default=0, help="Frames of input at the right of a chunk."),
        click.option("--left-context-initial", type=int, default=-1, help="The same for the first chunk (-1: same)."),
        click.option("--right-context-final", type=int, default=-1, help="The same for the last chunk (-1: same)."),
        click.option(
            "--num-frames",
            default="1",
            show_default=True,
            metavar="N[,N...]",
            help="Frames of a chunk; of those behind the first one at most two per utterance. -1: whole utterances.",
        ),
        click.option("--num-frames-overlap", type=_FRAMES, default=0, help="Frames that neighbours should share."),
        click.option(
            "--frame-subsampling-factor",
            type=click.IntRange(1),
            default=1,
            show_default=True,
            help="Frames of input per output.",
        ),
    ]
)

input_options = all_of(
    [
        chunk_options,
        click.option(
            "--online-ivectors", "--ivectors", "online_ivectors", metavar="RSPECIFIER", help="Matrices of ivectors."
        ),
        click.option(
            "--online-ivector-period", type=click.IntRange(1), default=1, show_default=True, help="Frames per ivector."
        ),
        click.option("--compress", type=KALDI_BOOL, default=True, show_default=True, help="Compress full matrices."),
        click.option(
            "--length-tolerance", type=_FRAMES, default=100, show_default=True, help="Frames of ivectors off."
        ),
        srand_option,
    ]
)

making_options = all_of(
    [
        input_options,
        click.option(
            "--targets-length-tolerance", type=_FRAMES, default=2, show_default=True, help="Frames of targets off."
        ),
    ]
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
