"""Kinds of values in a settings file: what is expected, and how a value becomes what the program uses."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Kind:
    """`convert` takes a value of the file; for one that is not as `expected` it raises ValueError, or a hint."""

    expected: str
    convert: Callable[[Any], Any]


def setting(default: Any, kind: Kind, help: str, *, arithmetic: bool = True) -> Any:
    """A field of a section: `arithmetic` says whether another value would lead to other parameters."""
    return field(default=default, metadata={"kind": kind, "help": help, "arithmetic": arithmetic})


def number(minimum: float = -math.inf, maximum: float = math.inf, *, above: float | None = None) -> Kind:
    """A finite number within bounds; `above`: greater than that."""

    def convert(value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise ValueError
        result = float(value)  # of text too: YAML takes 1e-3 for text
        if not (math.isfinite(result) and minimum <= result <= maximum) or (above is not None and result <= above):
            raise ValueError
        return result

    return Kind(f"a number{_bounds(minimum, maximum, above)}", convert)


def integer(minimum: int, maximum: float = math.inf) -> Kind:
    """An integer within bounds."""

    def convert(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not minimum <= value <= maximum:
            raise ValueError
        return value

    return Kind(f"an integer{_bounds(minimum, maximum, None)}", convert)


def choice(*words: str) -> Kind:
    """One of some words."""

    def convert(value: Any) -> str:
        if value not in words:
            raise ValueError
        return str(value)

    return Kind("one of " + ", ".join(f"'{word}'" for word in words), convert)


def parsed(expected: str, parse: Callable[[str], object]) -> Kind:
    """Text that `parse` accepts, as it stands; what `parse` raises becomes the hint."""

    def convert(value: Any) -> str:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise ValueError
        parse(str(value))
        return str(value)

    return Kind(expected, convert)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError
    return value


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError
    return value


def _names(value: Any) -> tuple[str, ...]:
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, Sequence) or not all(isinstance(item, str) and item for item in values):
        raise ValueError
    return tuple(values)


TEXT = Kind("text", _text)
TRUTH = Kind("true or false", _truth)
NAMES = Kind("text or a list of texts", _names)


def _bounds(minimum: float, maximum: float, above: float | None) -> str:
    parts = [f"> {above:g}"] if above is not None else [f">= {minimum:g}"] if minimum > -math.inf else []
    parts += [f"<= {maximum:g}"] if maximum < math.inf else []
    return " " + " and ".join(parts) if parts else ""


TIME = Kind("a time, an integer of 32 bits", integer(-(2**31), 2**31 - 1).convert)
