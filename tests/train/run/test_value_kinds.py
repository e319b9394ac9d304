"""Kinds of values: what is said to be expected, what is taken and what it becomes."""

from __future__ import annotations

import math
from typing import Any

import pytest

from nnet3.train.run.value_kinds import NAMES, TEXT, TIME, TRUTH, choice, integer, number, parsed

KINDS = {
    "a number": number(),
    "a number >= 0": number(0),
    "a number <= 5": number(maximum=5),
    "a number >= 0.5 and <= 2": number(0.5, 2),
    "a number > 0 and <= 1": number(maximum=1, above=0),
    "an integer >= -3": integer(-3),
    "an integer >= 2 and <= 4": integer(2, 4),
    "one of 'b', 'a'": choice("b", "a"),
    "a size": parsed("a size", int),
    "text": TEXT,
    "true or false": TRUTH,
    "text or a list of texts": NAMES,
    "a time, an integer of 32 bits": TIME,
}
TAKEN: list[tuple[str, Any, Any]] = [
    ("a number", "1e-3", 0.001),
    ("a number", 3, 3.0),
    ("a number >= 0", 0, 0.0),
    ("a number <= 5", -7.5, -7.5),
    ("a number >= 0.5 and <= 2", 2, 2.0),
    ("a number > 0 and <= 1", 1, 1.0),
    ("an integer >= -3", -3, -3),
    ("an integer >= 2 and <= 4", 4, 4),
    ("one of 'b', 'a'", "a", "a"),
    ("a size", 12, "12"),
    ("a size", "12", "12"),
    ("text", "", ""),
    ("true or false", False, False),
    ("text or a list of texts", "a", ("a",)),
    ("text or a list of texts", ["a", "b"], ("a", "b")),
    ("text or a list of texts", [], ()),
    ("a time, an integer of 32 bits", 2**31 - 1, 2**31 - 1),
]
REFUSED: list[tuple[str, list[Any]]] = [
    ("a number", [True, None, [1], "one", math.inf, math.nan, "inf"]),
    ("a number >= 0", [-1e-9]),
    ("a number <= 5", [5.1]),
    ("a number >= 0.5 and <= 2", [0.4, 2.1]),
    ("a number > 0 and <= 1", [0, 1.1]),
    ("an integer >= -3", [-4, 1.0, True, "1"]),
    ("an integer >= 2 and <= 4", [1, 5]),
    ("one of 'b', 'a'", ["c", 1]),
    ("a size", ["x", "12.5", True, None, ["1"]]),
    ("text", [1, None, True]),
    ("true or false", [0, 1, "true", None]),
    ("text or a list of texts", [1, ["a", 1], [""], "", {"a": 1}, [["a"]]]),
    ("a time, an integer of 32 bits", [2**31, -(2**31) - 1, 0.5]),
]


@pytest.mark.parametrize("expected", KINDS)
def test_what_is_said_to_be_expected(expected: str) -> None:
    assert KINDS[expected].expected == expected


@pytest.mark.parametrize(("kind", "value", "result"), TAKEN)
def test_what_is_taken(kind: str, value: object, result: object) -> None:
    converted = KINDS[kind].convert(value)
    assert converted == result
    assert type(converted) is type(result)


@pytest.mark.parametrize(("kind", "value"), [(kind, value) for kind, values in REFUSED for value in values])
def test_what_is_refused(kind: str, value: object) -> None:
    with pytest.raises((ValueError, TypeError)):
        KINDS[kind].convert(value)
