from __future__ import annotations

import math

import pytest

from nnet3.base.text.values import above
from nnet3.model.xconfig.layer import Key, options, passed


@pytest.mark.parametrize(
    ("default", "text", "value"),
    [
        (-1, "007", 7),
        (-1, "-3", -3),
        (-1, "+3", 3),
        (0.5, "1", 1.0),
        (0.5, "1e-05", 1e-05),
        (0.5, ".5", 0.5),
        (0.5, "-inf", -math.inf),
        (False, "True", True),
        (True, "false", False),
        ("", " 0.010", " 0.010"),
    ],
)
def test_values_have_the_type_of_the_default(default: float | str, text: str, value: float | str) -> None:
    read = Key.of("key", default, "").kind.read(text)
    assert read == value
    assert type(read) is type(default)


@pytest.mark.parametrize(
    ("default", "text"),
    [(-1, "3.0"), (-1, ""), (-1, "1_0"), (-1, "4294967296"), (-1, "9" * 5000), (0.5, "1_0"), (0.5, "a"), (True, "yes")],
)
def test_what_is_no_value(default: float, text: str) -> None:
    with pytest.raises(ValueError, match=r"integer|number|true or false"):
        Key.of("key", default, "").kind.read(text)


def test_kinds_in_words() -> None:
    keys = [Key.of("a", -1, ""), Key.of("a", 1.0, ""), Key.of("a", True, ""), passed("a", ""), options("a", "")]
    assert [each.kind.kind for each in keys] == ["an integer", "a number", "true or false", "text", "key=value pairs"]
    assert Key.of("a", -1, "", above(0)).required
    assert not Key.of("a", 1, "", above(0)).required
    assert not passed("a", "").required
