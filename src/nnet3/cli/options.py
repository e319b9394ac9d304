"""Options that several verbs share."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import click

# Kaldi's programs take --flag=true and --flag=false.
KALDI_BOOL = click.BOOL

binary_option = click.option(
    "--binary", type=KALDI_BOOL, default=True, show_default=True, help="Write in binary mode (false: text)."
)
seed_option = click.option(
    "--srand", "seed", type=int, default=0, show_default=True, help="Seed of the random initial values."
)
kaldi_option = click.option(
    "--kaldi", type=KALDI_BOOL, default=False, help="Print Kaldi's own lines instead of tables."
)
learning_rates_option = click.option(
    "--print-learning-rates",
    type=KALDI_BOOL,
    default=False,
    help="Print only the learning rates, with colons between, as copy --learning-rates takes them.",
)

max_evaluations_option = click.option(
    "--max-objective-evaluations",
    type=click.IntRange(1),
    default=30,
    show_default=True,
    help="Most averages to try.",
)


def test_mode_options(*, batchnorm: bool) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: the modes in which to compute an objective; `batchnorm` is the default of that one."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        dropout_option = click.option(
            "--dropout-test-mode", type=KALDI_BOOL, default=True, show_default=True, help="Without dropout."
        )
        batchnorm_option = click.option(
            "--batchnorm-test-mode",
            type=KALDI_BOOL,
            default=batchnorm,
            show_default=True,
            help="Batch-norm by stored statistics.",
        )
        return batchnorm_option(dropout_option(function))

    return decorate


TRUTHS = ("true", "false", "t", "f", "yes", "no", "y", "n", "on", "off", "1", "0")


class FiniteFloat(click.ParamType):
    """A number, at least `minimum`, that is neither infinite nor NaN."""

    name = "float"

    def __init__(self, minimum: float | None = None):
        self.minimum = minimum

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(click.FLOAT.convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        if self.minimum is not None and number < self.minimum:
            self.fail(f"{value} is not in the range x>={self.minimum:g}.", param, ctx)
        return number
