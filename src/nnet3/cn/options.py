"""Options of operations: the allowed kinds of values, checked alike from Python and from files."""

from __future__ import annotations

import math
import numbers
import re
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from nnet3.errors import ArgumentError

_KIND = re.compile(r"(?:int|float|bool|str|tuple\[int(?:, (?:int|\.\.\.))*\])(?: \| None)?\Z")
_EXPECTED = {"int": "an integer", "float": "a finite number", "bool": "True or False", "str": "a text"}
_MOST = 2**31  # integers are smaller: rows and times are counted in 32 bits


def kinds_of_fields(made: type) -> dict[str, str]:
    """The fields of a dataclass and their annotations as text: "int", "tuple[int, int]", "float | None"."""
    found = {}
    for each in fields(made) if is_dataclass(made) else ():
        annotation: Any = each.type
        found[each.name] = annotation.__name__ if annotation in (int, float, bool, str) else str(annotation)
    return found


def is_kind(annotation: str) -> bool:
    """Tell whether fields so annotated can be options: int, float, bool, str, tuples of int, or these or None."""
    return _KIND.match(annotation) is not None


def checked_option(value: Any, kind: str, what: str) -> Any:
    """The value as a plain int, float, bool, str, tuple or None. Raises ArgumentError for one that does not fit."""
    plain = kind.removesuffix(" | None")
    if value is None and plain != kind:
        return None
    sizes = plain.removeprefix("tuple[").removesuffix("]").split(", ")
    if plain.startswith("tuple"):
        fits = isinstance(value, tuple | list) and ("..." in sizes or len(value) == len(sizes))
        if fits and all(_fits(element, "int") for element in value):
            return tuple(int(element) for element in value)
        expected = "integers" if "..." in sizes else f"{len(sizes)} integers"
    else:
        if _fits(value, plain):
            return {"int": int, "float": float, "bool": bool, "str": str}[plain](value)
        expected = _EXPECTED[plain]
    raise ArgumentError(f"{what} must be {expected}{' or None' if plain != kind else ''}, got {value!r}")


def _fits(value: Any, kind: str) -> bool:
    if isinstance(value, bool | np.bool_):
        return kind == "bool"
    if kind == "int":
        return isinstance(value, numbers.Integral) and abs(int(value)) < _MOST
    if kind == "float":
        whole = isinstance(value, numbers.Integral)
        return abs(int(value)) < _MOST if whole else isinstance(value, numbers.Real) and math.isfinite(value)
    return kind == "str" and isinstance(value, str)
