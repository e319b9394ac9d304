"""Options of the trainer, with Kaldi's names, for all verbs that train."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from nnet3.cli.options import KALDI_BOOL, FiniteFloat
from nnet3.cli.verb import take_internal

_LOG = logging.getLogger("nnet3")
_DERIV_TIMES = ("min-deriv-time", "max-deriv-time", "max-deriv-time-relative")
_CACHES = ("read_cache", "write_cache", "binary_write_cache")

_OPTIONS = (
    click.option("--srand", "seed", type=int, default=0, show_default=True, help="Seed of all that is random."),
    click.option(
        "--zero-component-stats", type=KALDI_BOOL, default=True, show_default=True, help="Forget statistics first."
    ),
    click.option("--store-component-stats", type=KALDI_BOOL, default=True, show_default=True, help="Store statistics."),
    click.option(
        "--print-interval", type=click.IntRange(1), default=100, show_default=True, help="Minibatches per log line."
    ),
    click.option(
        "--max-param-change",
        type=FiniteFloat(0.0),
        default=2.0,
        show_default=True,
        help="Most that all parameters may change in a minibatch, as a Euclidean norm (0: no limit).",
    ),
    click.option("--momentum", type=FiniteFloat(0.0), default=0.0, show_default=True, help="0 <= momentum < 1."),
    click.option(
        "--l2-regularize-factor",
        type=FiniteFloat(0.0),
        default=1.0,
        show_default=True,
        help="Multiplies the l2-regularize of components: 1 / jobs whose models will be averaged.",
    ),
    click.option(
        "--batchnorm-stats-scale",
        type=FiniteFloat(0.0),
        default=0.8,
        show_default=True,
        help="Multiplies batch-norm statistics after each minibatch.",
    ),
    click.option(
        "--backstitch-training-scale", type=FiniteFloat(0.0), default=0.0, show_default=True, help="0: no backstitch."
    ),
    click.option(
        "--backstitch-training-interval",
        type=click.IntRange(1),
        default=1,
        show_default=True,
        help="Minibatches per backstitch step.",
    ),
    click.option(
        "--max-skipped",
        type=click.IntRange(0),
        default=100,
        show_default=True,
        help="Stop if more minibatches than this have numbers that are not finite.",
    ),
    click.option("--read-cache", metavar="FILE", help="Ignored: compiling takes little."),
    click.option("--write-cache", metavar="FILE", help="Ignored."),
    click.option("--binary-write-cache", type=KALDI_BOOL, default=True, hidden=True),
)


def _take_time(name: str) -> int | None:
    """The value of an internal option that is a time, if it was given."""
    value = take_internal(name)
    if value is None:
        return None
    try:
        return int(value)
    except ValueError:
        raise click.UsageError(f"--{name} takes a whole number, got '{value}'") from None


def trainer_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator: the options, passed on under the names that `TrainerOptions` has."""

    @wraps(function)
    def command(**options: Any) -> Any:
        options |= {name.replace("-", "_"): _take_time(f"optimization.{name}") for name in _DERIV_TIMES}
        for name in _CACHES:
            value = options.pop(name)
            if value and name != "binary_write_cache":
                _LOG.debug("ignored: --%s=%s, since compiling takes little here", name.replace("_", "-"), value)
        return function(**options)

    for option in reversed(_OPTIONS):
        command = option(command)
    return command
