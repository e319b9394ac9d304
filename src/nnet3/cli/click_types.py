"""Kinds of values as types of command-line options."""

from __future__ import annotations

from typing import Any

import click

from nnet3.text import values


class _IntegerType(click.IntRange):
    """An integer that keeps inclusive bounds, which help shows, and fits its bits."""

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
    """The type of a command-line option that takes values of this kind."""
    if isinstance(kind, values.Boolean):
        return click.BOOL
    if isinstance(kind, values.Integer) and kind.rule is not values.ANY:
        return _IntegerType(kind)
    if isinstance(kind, values.Text) and kind.rule is values.ANY and kind.parse is None:
        return click.STRING
    names = {values.Number: "float", values.Integer: "integer"}
    return _ValueType(kind, next((name for of, name in names.items() if isinstance(kind, of)), "text"))


def integer(minimum: float | None = None, bits: int = 32) -> click.ParamType[Any]:
    """The type of an option that takes integers of so many bits."""
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
