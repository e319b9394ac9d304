from __future__ import annotations

import re

import pytest

from nnet3.errors import ConfigError
from nnet3.model.xconfig.line import read_xconfig_lines


def values_of(text: str) -> dict[str, str]:
    (line,) = read_xconfig_lines(text)
    return {key: value.text for key, value in line.values.items()}


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("a-layer name=x", {"name": "x"}),
        ("  a-layer\t name=x   dim=3 # dim=4", {"name": "x", "dim": "3"}),
        ("ab name=x input=Append(-1,  0, 1) dim=3", {"name": "x", "input": "Append(-1, 0, 1)", "dim": "3"}),
        ("ab name=x dim=", {"name": "x", "dim": ""}),
        ("ab dim= 3 name= x", {"dim": "3", "name": "x"}),
        ('ab name=x options="a=1.0  b=c" d=e', {"name": "x", "options": "a=1.0 b=c", "d": "e"}),
        ('ab name=x options="a=1 #" d=e"', None),
        ('ab name="x"', {"name": "x"}),
        ("ab name=x input=[-1]@3", {"name": "x", "input": "[-1]@3"}),
        ("ab name=x a.b=3", {"name": "x a.", "b": "3"}),
    ],
)
def test_lines_split_into_values_or_are_refused(text: str, values: dict[str, str] | None) -> None:
    if values is None or not values["name"].isalnum():
        with pytest.raises(ConfigError):
            values_of(text)
    else:
        assert values_of(text) == values


def test_empty_lines_and_comments_are_skipped_and_counted() -> None:
    lines = read_xconfig_lines("\n# a\n  input name=a dim=3\r\n \t\ninput name=b dim=4", "net.xconfig")
    assert [(line.type, line.name, line.span.place) for line in lines] == [
        ("input", "a", "net.xconfig:3:3"),
        ("input", "b", "net.xconfig:5:1"),
    ]


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("input name=a dim=3*4", 19, "the character '*' is not allowed here"),
        ("Input name=a", 1, "'Input' is not a layer type"),
        ("a name=a", 1, "'a' is not a layer type"),
        ("input a name=b", 7, "expected key=value, got 'a'"),
        ("input name=a dim=3 dim=4", 20, "'dim' is given twice on this line"),
        ("input dim=3", 1, "input: 'name=' is missing"),
        ("input nmae=a dim=3", 1, "is it the misspelt 'nmae'?"),
        ("input name=3a", 12, "'3a' is not a valid name"),
        ("input name=", 12, "'' is not a valid name"),
        ("input name=a b dim = 3", 20, "expected a key before '='"),
        ("input name=a -dim=3", 14, "'-dim' is not a key"),
        ('input name=a b="c=3', 16, 'the quote " is never closed'),
        ("input", 1, "input: 'name=' is missing"),
    ],
)
def test_errors_point_at_their_place(text: str, column: int, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)) as caught:
        read_xconfig_lines(text)
    assert caught.value.span is not None
    assert (caught.value.span.line, caught.value.span.column) == (1, column)


def test_parts_of_values_know_their_columns_though_blanks_are_collapsed() -> None:
    (line,) = read_xconfig_lines("ab  name=x input=Append(  a,   bcd )")
    value = line.values["input"]
    assert value.text == "Append( a, bcd )"
    span = value.part(value.text.index("bcd"), 3)
    assert span.text[span.column - 1 : span.column - 1 + span.length] == "bcd"
