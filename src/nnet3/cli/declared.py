"""Makes command-line options of the fields that classes of options declare."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from typing import Any

import click

from nnet3.base.options.declaring import Option, Options, declared
from nnet3.cli.options import Decorator, all_of, click_type, ignored
from nnet3.errors import Nnet3Error


def takes(
    parameter: str,
    options: type[Options],
    omit: tuple[str, ...] = (),
    prefix: str = "",
    defaults: Options | None = None,
) -> Decorator:
    """Decorator: adds the options declared by a class, except omitted options; the verb gets one object of the class.

    A field with options of another class adds the options of the other class too. Names on command lines begin with
    `prefix`, as in `endpoint.rule1.`; `defaults`, an object of the class, has other defaults.
    """
    items = {item.name: item for item in _all_declared(options) if item.name not in omit}
    shown = {name: _prefixed(item, prefix, defaults) for name, item in items.items()}

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def command(**given: Any) -> Any:
            own = {name: given.pop(item.name) for name, item in shown.items()}
            with _naming_as_typed(shown):
                return function(**given, **{parameter: _built(options, own)})

        return all_of(*map(_click_option, shown.values()))(command)

    return decorate


@contextmanager
def _naming_as_typed(shown: Mapping[str, Option]) -> Iterator[None]:
    """Lets an error about one of some options name options as on the command line, `--num-frames` for `num_frames`."""
    try:
        yield
    except Nnet3Error as error:
        if error.option in shown:
            names = "|".join(name for name in shown if "_" in name or name in (error.option, *error.others))
            typed = re.sub(rf"(?<![\w.-])({names})\b", lambda found: f"--{shown[found[1]].flag}", str(error))
            error.args, error.option = (typed,), ""
        raise


def _prefixed(item: Option, prefix: str, defaults: Options | None) -> Option:
    name = f"{prefix}{item.name}".replace(".", "_").replace("-", "_")
    default = item.program_default if defaults is None else getattr(defaults, item.name)
    return dataclasses.replace(item, name=name, flag=f"{prefix}{item.flag}", program_default=default)


def one(options: type[Options], name: str, parameter: str = "", *names: str, **changes: Any) -> Decorator:
    """Decorator: adds one option of a class; the verb gets its value as `parameter`, by default `name`.

    `names` take the place of its name on command lines. `changes` are made to its declaration, as
    `program_default=0.5`.
    """
    item = next(item for item in declared(options) if item.name == name)
    return _click_option(dataclasses.replace(item, name=parameter or name, **changes), *names)


def unused(*classes: type[Options]) -> Decorator:
    """Decorator: adds the options of classes, hidden in help and without effect here."""
    items = {item.flag: item for options in classes for item in _all_declared(options)}
    return all_of(*(ignored(f"--{flag}", kind=click_type(item.kind)) for flag, item in items.items()))


def _click_option(item: Option, *names: str) -> Decorator:
    return click.option(
        *(names or (f"--{item.flag}",)),
        item.name,
        type=click_type(item.kind),
        default=_as_text(item.program_default),
        show_default=item.program_default not in ("", ()),
        metavar=item.metavar,
        hidden=item.hidden,
        help=item.help,
    )


def _all_declared(options: type[Options]) -> Iterator[Option]:
    for part in _parts(options).values():
        yield from _all_declared(part)
    yield from declared(options)


def _parts(options: type[Options]) -> dict[str, type[Options]]:
    """Returns the fields that hold further options."""
    found: dict[str, Any] = {field.name: field.default_factory for field in dataclasses.fields(options)}
    return {name: part for name, part in found.items() if isinstance(part, type) and issubclass(part, Options)}


def _built(options: type[Options], values: dict[str, Any]) -> Options:
    parts = {name: _built(part, values) for name, part in _parts(options).items()}
    own = {item.name: values[item.name] for item in declared(options) if item.name in values}
    return options(**parts, **own)


def _as_text(default: Any) -> Any:
    return ",".join(map(str, default)) if isinstance(default, tuple) else default
