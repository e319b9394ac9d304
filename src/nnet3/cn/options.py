"""Options of operations: fields of a dataclass, whose annotations say the kinds of values in Python and in files."""

from __future__ import annotations

import functools
import numbers
import re
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np

from nnet3.base.text.values import Boolean, Integer, Integers, Number, Rule, Text, Value, above
from nnet3.errors import ArgumentError

_KIND = re.compile(r"(?:int|float|bool|str|tuple\[int(?:, (?:int|\.\.\.))*\])(?: \| None)?\Z")
_LEAST = -(2**31)  # integers are larger, and smaller than 2^31: rows and times are counted in 32 bits
_INTEGER = Integer(above(_LEAST))


@dataclass(frozen=True)
class _Finite(Number):
    def take(self, value: Any) -> float:
        return super().take(_INTEGER.checked(value) if isinstance(value, numbers.Integral) else value)


@dataclass(frozen=True)
class _Tuple(Integers):
    def take(self, value: Any) -> tuple[int, ...]:
        return super().take("" if isinstance(value, numbers.Integral) else value)


#: By annotation: the kind, and what it is called in Python.
_PLAIN: dict[str, tuple[Value, str]] = {
    "int": (_INTEGER, "an integer"),
    "float": (_Finite(), "a finite number"),
    "bool": (Boolean(), "True or False"),
    "str": (Text(), "a text"),
}


def kinds_of_fields(made: type) -> dict[str, str]:
    """Returns the fields of a dataclass and their annotations as text: "int", "tuple[int, int]", "float | None"."""
    found = {}
    for each in fields(made) if is_dataclass(made) else ():
        annotation: Any = each.type
        found[each.name] = annotation.__name__ if annotation in (int, float, bool, str) else str(annotation)
    return found


def is_kind(annotation: str) -> bool:
    """Tells whether fields so annotated can be options: int, float, bool, str, tuples of int, or these or None."""
    return _KIND.match(annotation) is not None


def checked_option(value: Any, annotation: str, what: str) -> Any:
    """Returns the value as int, float, bool, str, tuple or None. Raises ArgumentError for one that does not fit."""
    plain = annotation.removesuffix(" | None")
    if value is None and plain != annotation:
        return None
    kind, words = _PLAIN.get(plain) or _integers(plain)
    try:
        return kind.checked(value.item() if isinstance(value, np.generic) else value)
    except ValueError:
        or_none = " or None" if plain != annotation else ""
        raise ArgumentError(f"{what} must be {words}{or_none}, got {value!r}") from None


@functools.cache
def _integers(annotation: str) -> tuple[Value, str]:
    """Returns the kind of tuples of integers, of one length unless the annotation has dots, and what it is called."""
    sizes = annotation.removeprefix("tuple[").removesuffix("]").split(", ")
    words = "integers" if "..." in sizes else f"{len(sizes)} integers"

    def holds(found: tuple[int, ...]) -> bool:
        return ("..." in sizes or len(found) == len(sizes)) and min(found, default=0) > _LEAST

    return _Tuple(Rule(words, holds)), words
