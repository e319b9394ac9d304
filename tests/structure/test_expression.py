"""Descriptors as written: their parts with places, and every mistake where it stands."""

from __future__ import annotations

import pytest

from nnet3.errors import ConfigError, Span
from nnet3.model.structure.expression import MAX_DEPTH, Expression, parse_expression


def _parse(text: str) -> Expression:
    return parse_expression(Span("<test>", 1, 1, len(text), text))


def _at(error: ConfigError) -> str:
    assert error.span is not None
    return error.span.text[error.span.column - 1 :][: error.span.length]


@pytest.mark.parametrize(
    ("text", "at", "message"),
    [
        ("", "", "expected"),
        ("Append(a", "", "got the end of the descriptor"),
        ("a b", "b", "expected the end of the descriptor, got 'b'"),
        ("Ofset(a, 1)", "Ofset", "unknown descriptor type 'Ofset'"),
        ("7", "7", "expected a node name or a descriptor, got the number 7"),
        ("Sum(a, )", ")", r"expected a node name or a descriptor, got '\)'"),
        ("Offset(a, b)", "b", r"\(an integer below 2\^30\), got 'b'"),
        ("Offset(a, 1073741824)", "1073741824", "an integer below"),
        ("Round(a, 0)", "0", "must be >= 1, got 0"),
        ("Scale(x, a)", "x", r"\(a number\), got 'x'"),
        ("Scale(inf, a)", "inf", "must be finite, got 'inf'"),
        ("ReplaceIndex(a, n, 0)", "n", "got 'n'"),
        ("Failover(a)", ")", r"got '\)'"),
    ],
)
def test_mistakes_are_named_where_they_stand(text: str, at: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        _parse(text)
    assert _at(caught.value) == at or not at


def test_a_type_that_is_nearly_right_gets_a_hint() -> None:
    with pytest.raises(ConfigError) as caught:
        _parse("Ofset(a, 1)")
    assert "Offset" in caught.value.hint


def test_a_node_alone_has_no_height() -> None:
    assert _parse("a").height < _parse("Offset(a, 1)").height < _parse("Sum(a, Offset(b, 1))").height + 1


def test_how_deep_descriptors_may_be() -> None:
    def nested(depth: int) -> str:
        return "IfDefined(" * depth + "a" + ")" * depth

    _parse(nested(MAX_DEPTH - 1))
    with pytest.raises(ConfigError, match=f"nested more than {MAX_DEPTH} deep"):
        _parse(nested(MAX_DEPTH + 1))
