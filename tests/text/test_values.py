"""Kinds of values and rules: what is said to be expected, what is taken, and what it becomes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from nnet3.base.text.values import (
    Boolean,
    Integer,
    Integers,
    Number,
    Rule,
    Text,
    Texts,
    Value,
    above,
    at_least,
    between,
    bounds,
    choice,
    either,
    nonzero,
    one_of,
    whole_number,
    within,
)

KINDS: dict[str, Value] = {
    "a number": Number(),
    "a number >= 0": Number(at_least(0)),
    "a number <= 5": Number(bounds(maximum=5)),
    "a number within [0.5, 2]": Number(within(0.5, 2)),
    "a number > 0 and <= 1": Number(bounds(above=0, maximum=1)),
    "an integer": Integer(),
    "an integer >= -3": Integer(at_least(-3)),
    "an integer >= 5": Integer(at_least(5), bits=64),
    "an integer within [2, 1000000]": Integer(within(2, 1_000_000)),
    "a list of integers": Integers(),
    "one of b, a": choice("b", "a"),
    "a size": Text(description="a size", parse=int),
    "text": Text(),
    "true or false": Boolean(),
    "text or a list of texts": Texts(),
}
TAKEN: list[tuple[str, Any, Any]] = [
    ("a number", 3, 3.0),
    ("a number", np.float32(0.5), 0.5),
    ("a number >= 0", 0, 0.0),
    ("a number <= 5", -7.5, -7.5),
    ("a number within [0.5, 2]", 2, 2.0),
    ("a number > 0 and <= 1", 1, 1.0),
    ("an integer", 2**31 - 1, 2**31 - 1),
    ("an integer", np.int64(-(2**31)), -(2**31)),
    ("an integer >= -3", -3, -3),
    ("an integer >= 5", 2**63 - 1, 2**63 - 1),
    ("an integer within [2, 1000000]", 1_000_000, 1_000_000),
    ("a list of integers", [3, -1], (3, -1)),
    ("a list of integers", 3, (3,)),
    ("one of b, a", "a", "a"),
    ("a size", 12, "12"),
    ("a size", "12", "12"),
    ("text", "", ""),
    ("true or false", False, False),
    ("text or a list of texts", "a", ("a",)),
    ("text or a list of texts", ["a", "b"], ("a", "b")),
    ("text or a list of texts", [], ()),
]
REFUSED: list[tuple[str, list[Any]]] = [
    ("a number", [True, None, [1], "1", math.inf, math.nan]),
    ("a number >= 0", [-1e-9]),
    ("a number <= 5", [5.1]),
    ("a number within [0.5, 2]", [0.4, 2.1]),
    ("a number > 0 and <= 1", [0, 1.1]),
    ("an integer", [2**31, -(2**31) - 1, 0.5, True, "1", None]),
    ("an integer >= -3", [-4, 1.0]),
    ("an integer >= 5", [2**63, 4]),
    ("an integer within [2, 1000000]", [1, 1_000_001]),
    ("a list of integers", ["1", [1.5], [2**31], None]),
    ("one of b, a", ["c", 1]),
    ("a size", ["x", "12.5", True, None, ["1"]]),
    ("text", [1, None, True]),
    ("true or false", [0, 1, "true", None]),
    ("text or a list of texts", [1, ["a", 1], [""], "", {"a": 1}, [["a"]]]),
]
READ: list[tuple[Value, str, Any]] = [
    (Integer(), "007", 7),
    (Integer(), "-3", -3),
    (Integer(), " +3 ", 3),
    (Integer(bits=64), "9" * 18, 10**18 - 1),
    (Number(), "1e-05", 1e-05),
    (Number(), ".5", 0.5),
    (Number(finite=False), "-inf", -math.inf),
    (Boolean(), "Truth", True),
    (Boolean(by_first_letter=False), "True", True),
    (Boolean(by_first_letter=False), "false", False),
    (Integers(), "140,100, 160", (140, 100, 160)),
    (Integers(separators=":,", with_gaps=True), "1:-2,3,", (1, -2, 3)),
    (Text(), " 0.010", " 0.010"),
    (Texts(), "a", ("a",)),
]
NOT_READ: list[tuple[Value, str, str]] = [
    (Integer(), "3.0", "an integer"),
    (Integer(), "", "an integer"),
    (Integer(), "1_0", "an integer"),
    (Integer(), "4294967296", "an integer that fits 32 bits"),
    (Integer(), "9" * 5000, "an integer that fits 32 bits"),
    (Number(), "1_0", "a number"),
    (Number(), "a", "a number"),
    (Number(), "nan", "a finite number"),
    (Boolean(), "yes", "true or false"),
    (Boolean(by_first_letter=False), "t", "true or false"),
    (Integers(), "8,", "a list of integers"),
    (Integers(), "1,x", "a list of integers"),
    (Integers(), "1,3000000000", "a list of integers that fit 32 bits"),
]


@pytest.mark.parametrize("expected", KINDS)
def test_what_is_said_to_be_expected(expected: str) -> None:
    assert KINDS[expected].expected == expected


@pytest.mark.parametrize(("kind", "value", "result"), TAKEN)
def test_what_is_taken(kind: str, value: object, result: object) -> None:
    checked = KINDS[kind].checked(value)
    assert checked == result
    assert type(checked) is type(result)


@pytest.mark.parametrize(("kind", "value"), [(kind, value) for kind, values in REFUSED for value in values])
def test_what_is_refused(kind: str, value: object) -> None:
    with pytest.raises(ValueError):
        KINDS[kind].checked(value)


@pytest.mark.parametrize(("kind", "text", "result"), READ)
def test_what_text_is_read_as(kind: Value, text: str, result: object) -> None:
    read = kind.read(text)
    assert read == result
    assert type(read) is type(result)


def test_an_integer_too_large_for_a_number() -> None:
    with pytest.raises(ValueError, match="a finite number"):
        Number().checked(10**400)


def test_whole_numbers() -> None:
    assert [whole_number(text) for text in ("7", b"012", "9" * 18)] == [7, 12, 10**18 - 1]
    assert {whole_number(text) for text in ("", "-1", "+1", "1_0", " 1", "²", "٣", "1.", "9" * 5000, b"x")} == {None}


@pytest.mark.parametrize(("kind", "text", "message"), NOT_READ)
def test_text_that_is_no_value(kind: Value, text: str, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        kind.read(text)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("rule", "words", "good", "bad"),
    [
        (above(0), "> 0", [0.1, 5], [0, -1, math.nan]),
        (within(0, 1), "within [0, 1]", [0, 1], [-0.1, math.nan]),
        (between(0, 1), "> 0 and < 1", [0.5], [0, 1]),
        (one_of("a", "b"), "one of a, b", ["a"], ["c", ""]),
        (nonzero(), "not 0", [1, -1], [0]),
        (either(-1, within(0, 1)), "-1 (none) or within [0, 1]", [-1, 0.5], [-0.5, 2]),
    ],
)
def test_rules_hold_for_what_their_words_say(rule: Rule, words: str, good: list[Any], bad: list[Any]) -> None:
    assert rule.words == words
    assert all(rule.holds(value) for value in good)
    assert not any(rule.holds(value) for value in bad)
