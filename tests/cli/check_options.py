"""What the options of a verb are when they are not given, which values they take, and whether the help says so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click
import pytest

from nnet3.cli.verb import find_verb


def parsed(verb: str, *words: str) -> dict[str, Any]:
    """What the verb would be called with, if besides these words it got no more than it needs."""
    command = find_verb(verb)
    needed = [p for p in command.params if p.required]
    options = [f"{p.opts[0]}=1" for p in needed if isinstance(p, click.Option)]
    arguments = ["a"] * sum(max(1, p.nargs) for p in needed if isinstance(p, click.Argument))
    with command.make_context(verb, [*options, *words, *arguments]) as context:
        return {**context.params}


def check_options(verb: str, table: Mapping[str, tuple[Any, Any]]) -> None:
    """`table` has for each option its default and the least number that it takes, or None for no bound.

    The help explains each option and says its default; where it is off, it need not.
    """
    options = {name: p for p in find_verb(verb).params if isinstance(p, click.Option) for name in p.opts}
    defaults = parsed(verb)
    for name, (default, least) in table.items():
        option = options[name]
        assert repr(defaults[str(option.name)]) == repr(default), name
        _check_help(verb, option, default)
        _check_values(verb, option, default, least)


def _check_help(verb: str, option: click.Option, default: Any) -> None:
    record = option.get_help_record(click.Context(find_verb(verb)))
    assert record is not None, f"{option.opts} is not in the help"
    usage, text = record
    assert text[:1].isupper() or text[:1] in ("0", "-"), f"{option.opts} is not explained"
    assert option.type is not click.STRING or not usage.endswith(" TEXT"), f"{option.opts}: what text?"
    if default is not False:
        shown = ",".join(map(str, default)) if isinstance(default, tuple) else default
        assert (f"[default: {shown}" in text) == (default is not None), text


def _check_values(verb: str, option: click.Option, default: Any, least: Any) -> None:
    name, words = str(option.name), option.opts[0]
    if isinstance(default, bool):
        assert [parsed(verb, f"{words}={word}")[name] for word in ("true", "false")] == [True, False]
        wrong = ["maybe"]
    elif option.type is click.STRING:
        assert parsed(verb, f"{words}=some")[name] == "some"
        wrong = []
    else:
        wrong = ["x", *([] if least is None else [str(least - 1), str(least - 0.001)])]
    if least is not None:
        assert parsed(verb, f"{words}={least}")[name] == least
    for value in wrong:
        with pytest.raises(click.UsageError):
            parsed(verb, f"{words}={value}")


def check_ignored(verb: str, *options: str) -> None:
    """They are taken, change nothing, and the help does not speak of them; a value that makes no sense is refused."""
    command = find_verb(verb)
    text = command.get_help(click.Context(command))
    for option in options:
        assert parsed(verb, option) == parsed(verb), option
        name = option.partition("=")[0]
        assert name not in text
        with pytest.raises(click.BadParameter):
            parsed(verb, f"{name}=maybe")
