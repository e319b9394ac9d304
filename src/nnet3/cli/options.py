"""Options and arguments of verbs: their kinds, and options of several verbs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import click

from nnet3.base.text import values
from nnet3.base.text.values import ANY, Integer, Number, Rule, at_least, within


class _TruthType(click.types.BoolParamType):
    """True or false, in the words of click but the empty one: as in Kaldi, `--flag=` is a mistake."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> bool:
        truth = None if value == "" else self.str_to_bool(value)
        return self.fail(f"it must be true or false, got '{value}'.", param, ctx) if truth is None else truth


class _IntegerType(click.IntRange):
    """An integer within inclusive bounds, shown by help, and within its bits."""

    def __init__(self, kind: values.Integer):
        super().__init__(_whole(kind.rule.minimum), _whole(kind.rule.maximum))
        self.kind = kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return _checked(self, self.kind, super().convert(value, param, ctx), param, ctx)


class _ValueType(click.ParamType):  # type: ignore[type-arg]
    """A value of any kind."""

    def __init__(self, kind: values.Value, name: str):
        self.kind, self.name = kind, name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            read = self.kind.read(value) if isinstance(value, str) else value
        except ValueError as error:
            self.fail(f"it must be {error}, got '{value}'.", param, ctx)
        return _checked(self, self.kind, read, param, ctx)


def click_type(kind: values.Value) -> click.ParamType[Any]:
    """Returns the type of a command-line option for values of a kind."""
    if isinstance(kind, values.Boolean):
        return KALDI_BOOL
    if isinstance(kind, values.Integer) and kind.rule is not values.ANY:
        return _IntegerType(kind)
    if isinstance(kind, values.Text) and kind.rule is values.ANY and kind.parse is None:
        return click.STRING
    names = {values.Number: "float", values.Integer: "integer"}
    return _ValueType(kind, next((name for of, name in names.items() if isinstance(kind, of)), "text"))


def integer(minimum: float | None = None, bits: int = 32) -> click.ParamType[Any]:
    """Returns the type of an option for integers of `bits` bits."""
    return click_type(values.Integer(values.ANY if minimum is None else values.at_least(minimum), bits))


def _checked(
    kind_of: click.ParamType[Any],
    kind: values.Value,
    value: Any,
    param: click.Parameter | None,
    ctx: click.Context | None,
) -> Any:
    try:
        return kind.checked(value)
    except ValueError as error:
        kind_of.fail(f"it must be {error}, got {value}.", param, ctx)


def _whole(bound: float | None) -> int | None:
    return None if bound is None else int(bound)


Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

KALDI_BOOL = _TruthType()  # Kaldi's programs take --flag=true and --flag=false

#: An option that is true or false.
flag = partial(click.option, type=KALDI_BOOL, default=False)


def number(*names: str, rule: Rule = ANY, **settings: Any) -> Decorator:
    """Returns an option for a number within the rule; help shows its default."""
    return click.option(
        *names, type=click_type(Number(rule)), show_default=settings.pop("show_default", True), **settings
    )


def whole_number(*names: str, least: int | None = None, bits: int = 32, **settings: Any) -> Decorator:
    """Returns an option for an integer of `bits` bits; help shows the default."""
    return click.option(*names, type=integer(least, bits), show_default=settings.pop("show_default", True), **settings)


def text_option(*names: str, metavar: str, help: str) -> Decorator:
    """Returns an option that takes text, "" by default."""
    return click.option(*names, default="", metavar=metavar, help=help)


def ignored(*names: str, kind: click.ParamType[Any] = KALDI_BOOL) -> Decorator:
    """Decorator: options of a program of Kaldi that change nothing here."""
    return all_of(*(click.option(name, type=kind, hidden=True, expose_value=False) for name in names))


def refused(*names: str, why: str, unless: float | None = None) -> Decorator:
    """Decorator: unsupported options of a program of Kaldi; only the neutral value is taken.

    The neutral value is `unless`, a number, or for texts the option's absence. Any other value raises UsageError, which
    says `why`.
    """

    def check(context: click.Context, parameter: click.Parameter, value: Any) -> None:
        if value != unless:
            raise click.UsageError(f"{parameter.opts[0]}={value}: {why}", context)

    kind = click.STRING if unless is None else click_type(Number())
    settings: dict[str, Any] = {"type": kind, "default": unless, "hidden": True, "expose_value": False}
    return all_of(*(click.option(name, callback=check, **settings) for name in names))


def port_option(name: str, *, help: str) -> Decorator:
    """Returns an option that takes a port of TCP, as `port`."""
    kind = click_type(Integer(within(0, 65535)))
    return click.option(name, "port", type=kind, metavar="PORT", help=help)


def arguments(**metavars: str) -> Decorator:
    """Returns the arguments of a verb, in order, by the words shown by usage.

    A word in brackets may be left out, and is "" then; an argument of several words, or with dots, takes one or more.
    """
    return all_of(*(_argument(name, metavar) for name, metavar in metavars.items()))


def _argument(name: str, metavar: str) -> Decorator:
    if " " in metavar or metavar.endswith("..."):
        return click.argument(name, metavar=metavar, nargs=-1, required=True)
    if metavar.startswith("["):
        return click.argument(name, metavar=metavar, required=False, default="")
    return click.argument(name, metavar=metavar)


def all_of(*decorators: Decorator) -> Decorator:
    """Returns a decorator that applies all `decorators`, the first outermost."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return decorate


#: Options of several verbs.
device_option: Decorator = click.option(
    "--device", "device_name", metavar="DEVICE", help="Where to compute: cpu, cuda, cuda:1."
)
graph_folder_option: Decorator = click.option(
    "--graph", metavar="DIR", help="The folder of the graph, if it is not in the model directory."
)
speaker_model_option: Decorator = click.option(
    "--spk-model", metavar="DIR", help="A speaker model of Vosk: results have the vector of the speaker."
)
word_symbols_option: Decorator = click.option(
    "--word-symbol-table", metavar="FILE", help="Words and their numbers: print the words of each utterance."
)
threads_option = whole_number("--num-threads", least=1, default=1, help="Utterances searched at once.")
tolerance_option = whole_number(
    "--length-tolerance", "tolerance", least=0, default=0, help="Frames by which lengths may differ."
)
gradient_option = flag(
    "--compute-deriv",
    "gradient",
    help="Also the gradient: its size for each component; written to GRADIENT-OUT.",
)
prior_floor_option = partial(number, "--prior-floor", rule=at_least(0), help="Smallest prior.")
binary_option = flag("--binary", default=True, show_default=True, help="Write in binary mode (false: text).")
seed_option = whole_number("--srand", "seed", bits=64, default=0, help="Seed of the random initial values.")
kaldi_option = flag("--kaldi", help="Print Kaldi's own lines instead of tables.")
compact_option = flag("--write-compact", default=True, help="Write acceptors of words.")
learning_rates_option = flag(
    "--print-learning-rates",
    help="Print only the learning rates, with colons between, as copy --learning-rates takes them.",
)

max_evaluations_option = whole_number("--max-objective-evaluations", least=1, default=30, help="Most averages to try.")


def test_mode_options(*, batchnorm: bool, dropout: bool) -> Decorator:
    """Decorator: the modes in which to compute; `batchnorm` and `dropout` are the defaults."""
    return all_of(
        flag("--batchnorm-test-mode", default=batchnorm, show_default=True, help="Batch-norm by stored statistics."),
        flag("--dropout-test-mode", default=dropout, show_default=True, help="Without dropout."),
    )


#: Options that count accuracies, as `accuracy` and `accuracy_by_column`.
accuracy_options = all_of(
    flag("--compute-accuracy", "accuracy", default=True, show_default=True, help="How often it is right."),
    flag("--compute-per-dim-accuracy", "accuracy_by_column", help="Also by the column that would be right."),
)


TRUTHS = ("true", "false", "t", "f", "yes", "no", "y", "n", "on", "off", "1", "0")


def cache_files(read: str, write: str) -> Decorator:
    """Decorator: files of compiled computations, as `cache_files`: the one to read and the one to write."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def command(read_cache: str | None, write_cache: str | None, **others: Any) -> Any:
            return function(cache_files=(read_cache, write_cache), **others)

        return all_of(
            click.option(read, "read_cache", metavar="FILE", help=f"Compiled computations, of an earlier {write}."),
            click.option(write, "write_cache", metavar="FILE", help="Where compiled computations are to be kept."),
        )(command)

    return decorate


caching_options = all_of(cache_files("--read-cache", "--write-cache"), ignored("--binary-write-cache"))
