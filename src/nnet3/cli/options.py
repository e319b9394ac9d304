"""Options and arguments of verbs: the kinds that there are, and those that several verbs share."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import click

from nnet3.cli.click_types import click_type, integer
from nnet3.text.values import ANY, Integer, Number, Rule, within

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

KALDI_BOOL = click.BOOL  # Kaldi's programs take --flag=true and --flag=false

#: An option that is true or false.
flag = partial(click.option, type=KALDI_BOOL, default=False)


def number(*names: str, rule: Rule = ANY, **settings: Any) -> Decorator:
    """An option that takes a number which keeps the rule; help shows its default."""
    return click.option(
        *names, type=click_type(Number(rule)), show_default=settings.pop("show_default", True), **settings
    )


def whole_number(*names: str, least: int | None = None, bits: int = 32, **settings: Any) -> Decorator:
    """An option that takes an integer of so many bits; help shows its default."""
    return click.option(*names, type=integer(least, bits), show_default=settings.pop("show_default", True), **settings)


def port_option(name: str, *, help: str) -> Decorator:
    """An option that takes a port of TCP, as `port`."""
    kind = click_type(Integer(within(0, 65535)))
    return click.option(name, "port", type=kind, metavar="PORT", help=help)


def arguments(**metavars: str) -> Decorator:
    """The arguments of a verb, in order, by the words with which usage shows them.

    One in brackets may be left out, and is "" then; one of several words, or with dots, takes one or more.
    """
    return all_of(*(_argument(name, metavar) for name, metavar in metavars.items()))


def _argument(name: str, metavar: str) -> Decorator:
    if " " in metavar or metavar.endswith("..."):
        return click.argument(name, metavar=metavar, nargs=-1, required=True)
    if metavar.startswith("["):
        return click.argument(name, metavar=metavar, required=False, default="")
    return click.argument(name, metavar=metavar)


def all_of(*decorators: Decorator) -> Decorator:
    """One decorator that does what all of them do, the first one outermost."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return decorate


binary_option = flag("--binary", default=True, show_default=True, help="Write in binary mode (false: text).")
seed_option = whole_number("--srand", "seed", bits=64, default=0, help="Seed of the random initial values.")
kaldi_option = flag("--kaldi", help="Print Kaldi's own lines instead of tables.")
learning_rates_option = flag(
    "--print-learning-rates",
    help="Print only the learning rates, with colons between, as copy --learning-rates takes them.",
)

max_evaluations_option = whole_number("--max-objective-evaluations", least=1, default=30, help="Most averages to try.")


def test_mode_options(*, batchnorm: bool) -> Decorator:
    """Decorator: the modes in which to compute an objective; `batchnorm` is the default of that one."""
    return all_of(
        flag("--batchnorm-test-mode", default=batchnorm, show_default=True, help="Batch-norm by stored statistics."),
        flag("--dropout-test-mode", default=True, show_default=True, help="Without dropout."),
    )


TRUTHS = ("true", "false", "t", "f", "yes", "no", "y", "n", "on", "off", "1", "0")


def caching_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator: files of compiled computations, as `cache_files`: the one to read and the one to write."""

    @wraps(function)
    def command(read_cache: str | None, write_cache: str | None, **others: Any) -> Any:
        return function(cache_files=(read_cache, write_cache), **others)

    return all_of(
        click.option("--read-cache", metavar="FILE", help="Compiled computations, of an earlier --write-cache."),
        click.option("--write-cache", metavar="FILE", help="Where compiled computations are to be kept."),
        click.option("--binary-write-cache", type=KALDI_BOOL, hidden=True, expose_value=False),
    )(command)


ignored_threads_option = click.option("--numerator-graph-threads", type=integer(), hidden=True, expose_value=False)
