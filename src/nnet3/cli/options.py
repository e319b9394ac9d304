"""Options that several verbs share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, wraps
from typing import Any

import click

from nnet3.cli.click_types import integer

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

# Kaldi's programs take --flag=true and --flag=false.
KALDI_BOOL = click.BOOL

binary_option = click.option(
    "--binary", type=KALDI_BOOL, default=True, show_default=True, help="Write in binary mode (false: text)."
)
seed_option = click.option(
    "--srand", "seed", type=integer(bits=64), default=0, show_default=True, help="Seed of the random initial values."
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
    type=integer(1),
    default=30,
    show_default=True,
    help="Most averages to try.",
)


def all_of(decorators: Sequence[Decorator]) -> Decorator:
    """One decorator that does what all of them do, the first one outermost."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return decorate


def test_mode_options(*, batchnorm: bool) -> Decorator:
    """Decorator: the modes in which to compute an objective; `batchnorm` is the default of that one."""

    flag = partial(click.option, type=KALDI_BOOL, show_default=True)
    return all_of(
        [
            flag("--batchnorm-test-mode", default=batchnorm, help="Batch-norm by stored statistics."),
            flag("--dropout-test-mode", default=True, help="Without dropout."),
        ]
    )


TRUTHS = ("true", "false", "t", "f", "yes", "no", "y", "n", "on", "off", "1", "0")


def caching_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator: files of compiled computations, as `cache_files`: the one to read and the one to write."""

    @wraps(function)
    def command(read_cache: str | None, write_cache: str | None, **others: Any) -> Any:
        return function(cache_files=(read_cache, write_cache), **others)

    return all_of(
        [
            click.option("--read-cache", metavar="FILE", help="Compiled computations, of an earlier --write-cache."),
            click.option("--write-cache", metavar="FILE", help="Where compiled computations are to be kept."),
            click.option("--binary-write-cache", type=KALDI_BOOL, hidden=True, expose_value=False),
        ]
    )(command)


ignored_threads_option = click.option("--numerator-graph-threads", type=integer(), hidden=True, expose_value=False)
