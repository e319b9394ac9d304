"""The normal form of descriptors: every rule of docs/config_language.md, and what cannot be normalised."""

from __future__ import annotations

import pytest

from nnet3.errors import ConfigError
from nnet3.model.structure.normalize import parse_descriptor


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        # Append to the top
        ("Sum(Append(a,b), Offset(Append(c,d),1))", "Append(Sum(a, Offset(c, 1)), Sum(b, Offset(d, 1)))"),
        ("Append(a)", "a"),
        ("Append(a, Append(b, Append(c, d)))", "Append(a, b, c, d)"),
        ("Failover(Append(a, b), Append(c, d))", "Append(Failover(a, c), Failover(b, d))"),
        ("IfDefined(Append(a, b))", "Append(IfDefined(a), IfDefined(b))"),
        ("Switch(Append(a, b), Append(c, d))", "Append(Switch(a, c), Switch(b, d))"),
        ("Scale(2, Append(a, Offset(b, 1)))", "Append(Scale(2, a), Offset(Scale(2, b), 1))"),
        ("Round(Append(a, b), 2)", "Append(Round(a, 2), Round(b, 2))"),
        ("Sum(Append(a, Const(1, 2)), Append(Const(2, 2), b))", "Append(Sum(a, Const(2, 2)), Sum(Const(1, 2), b))"),
        # Offset
        ("Offset(Offset(a, 1, 2), 3, 4)", "Offset(a, 4, 6)"),
        ("Offset(Offset(Offset(a, 1), 1), 1)", "Offset(a, 3)"),
        ("Offset(Offset(a, 1), -1)", "a"),
        ("Offset(a, 0)", "a"),
        ("Offset(a, 0, 0)", "a"),
        ("Offset(a, 0, 1)", "Offset(a, 0, 1)"),
        ("Offset(a, 2, 0)", "Offset(a, 2)"),
        ("Offset(Sum(a, b), 0)", "Sum(a, b)"),
        ("Offset(Const(1, 2), 0)", "Const(1, 2)"),
        ("Offset(Offset(Const(1, 2), 3), -3)", "Const(1, 2)"),
        ("Offset(Sum(a, Offset(Const(1, 2), 2)), -2)", "Sum(Offset(a, -2), Const(1, 2))"),
        # pushed inside
        ("Offset(Sum(a,b),1)", "Sum(Offset(a, 1), Offset(b, 1))"),
        ("Offset(Failover(a,b),1)", "Failover(Offset(a, 1), Offset(b, 1))"),
        ("Offset(IfDefined(a),1)", "IfDefined(Offset(a, 1))"),
        ("IfDefined(Const(0, 2))", "IfDefined(Const(0, 2))"),
        ("Round(Sum(a, b), 3)", "Sum(Round(a, 3), Round(b, 3))"),
        ("Round(Failover(a, b), 3)", "Failover(Round(a, 3), Round(b, 3))"),
        ("Round(IfDefined(a), 3)", "IfDefined(Round(a, 3))"),
        ("ReplaceIndex(Sum(a, b), t, 3)", "Sum(ReplaceIndex(a, t, 3), ReplaceIndex(b, t, 3))"),
        ("ReplaceIndex(IfDefined(a), x, -3)", "IfDefined(ReplaceIndex(a, x, -3))"),
        ("Switch(Sum(a, b))", "Sum(Switch(a), Switch(b))"),
        ("Switch(IfDefined(a))", "IfDefined(Switch(a))"),
        ("Switch(a)", "Switch(a)"),
        ("Round(Offset(Sum(a, Offset(b, 1)), 2), 3)", "Sum(Round(Offset(a, 2), 3), Round(Offset(b, 3), 3))"),
        ("Offset(Round(Offset(a, 1), 2), -1)", "Offset(Round(Offset(a, 1), 2), -1)"),
        # Sum
        ("Sum(a)", "a"),
        ("Sum(Sum(a))", "a"),
        ("Switch(a, Sum(b), Offset(Sum(Sum(c)), 1))", "Switch(a, b, Offset(c, 1))"),
        ("Switch(a, Scale(2, Sum(b)))", "Switch(a, Scale(2, b))"),
        ("Sum(a, b, c)", "Sum(a, Sum(b, c))"),
        ("Sum(a, b, c, d)", "Sum(a, Sum(b, Sum(c, d)))"),
        ("Sum(Sum(a, b), c)", "Sum(Sum(a, b), c)"),
        # Scale
        ("Scale(0.5, Offset(a, 1))", "Offset(Scale(0.5, a), 1)"),
        ("Scale(0.5, Round(a, 3))", "Round(Scale(0.5, a), 3)"),
        ("Scale(0.5, ReplaceIndex(a, t, 3))", "ReplaceIndex(Scale(0.5, a), t, 3)"),
        ("Scale(2, Sum(a, b, c))", "Sum(Scale(2, a), Sum(Scale(2, b), Scale(2, c)))"),
        ("Scale(2, Scale(3, a))", "Scale(6, a)"),
        ("Scale(2, Scale(0.5, a))", "a"),
        ("Scale(-1e-3, a)", "Scale(-0.001, a)"),
        ("Scale(1, a)", "a"),
        ("Switch(Scale(2, a), b)", "Switch(Scale(2, a), b)"),
        ("Failover(Scale(2, a), b)", "Failover(Scale(2, a), b)"),
        ("Sum(Scale(2,a), Scale(2,Offset(a,1)))", "Sum(Scale(2, a), Offset(Scale(2, a), 1))"),
        ("Append(a, Scale(2, a))", "Append(a, Scale(2, a))"),
        # Const
        ("Const(1.0, 4)", "Const(1, 4)"),
        ("Append(a, Const(-2.5e-1, 3))", "Append(a, Const(-0.25, 3))"),
        ("Const(0.1234567, 1)", "Const(0.123457, 1)"),
        # blanks, and names that look like something else
        ("  Offset( a ,-1 )  ", "Offset(a, -1)"),
        ("Append(t, x, Summe, _a.b-c)", "Append(t, x, Summe, _a.b-c)"),
        ("ReplaceIndex(t, t, 1)", "ReplaceIndex(t, t, 1)"),
    ],
)
def test_descriptors_have_one_normal_form(text: str, normal: str) -> None:
    descriptor = parse_descriptor(text)
    assert str(descriptor) == normal
    assert parse_descriptor(normal) == parse_descriptor(str(parse_descriptor(normal)))


@pytest.mark.parametrize(
    ("text", "message", "marked"),
    [
        ("Sum(Append(a, b), c)", "the arguments of Sum have 2 and 1 Append terms: they must be equal", "c"),
        ("Switch(a, Append(b, c))", "the arguments of Switch have 1 and 2 Append terms: they must be equal",
         "Append(b, c)"),
        ("Switch(Sum(a, b), c)", "Sum cannot stand inside a Switch of several arguments", "Sum(a, b)"),
        ("Switch(Sum(a), b)", "Sum cannot stand inside a Switch of several arguments", "Sum(a)"),
        ("Switch(a, IfDefined(b))", "IfDefined cannot stand inside a Switch of several arguments", "IfDefined(b)"),
        ("Switch(a, Failover(b, c))", "Failover cannot stand inside a Switch of several arguments", "Failover(b, c)"),
        ("Switch(a, Const(1, 2))", "Const cannot stand inside a Switch of several arguments", "Const(1, 2)"),
        ("Switch(a, Offset(Sum(b, c), 1))", "Sum cannot stand inside a Switch of several arguments", "Sum(b, c)"),
        ("Switch(Offset(Sum(a), 1), b)", "Sum cannot stand inside a Switch of several arguments", "Sum(a)"),
        ("Switch(a, Switch(Sum(b), c))", "Sum cannot stand inside a Switch of several arguments", "Sum(b)"),
        ("Switch(Round(IfDefined(a), 2), b)", "IfDefined cannot stand inside a Switch of several arguments",
         "IfDefined(a)"),
        ("Scale(2, Switch(a))", "Scale cannot be applied to Switch: scale its arguments instead", "Switch(a)"),
        ("Scale(2, Offset(Switch(Sum(a, b)), 1))", "Scale cannot be applied to Switch: scale its arguments instead",
         "Switch(Sum(a, b))"),
        ("Offset(Offset(a, 1073741823), 1)", "the offsets add up to 1073741824: below 2^30 is allowed",
         "Offset(a, 1073741823)"),
        ("Scale(2, Failover(a, b))", "Scale cannot be applied to Failover: scale its arguments instead",
         "Failover(a, b)"),
        ("Scale(2, IfDefined(a))", "Scale cannot be applied to IfDefined: scale its arguments instead",
         "IfDefined(a)"),
        ("Scale(2, Switch(a, b))", "Scale cannot be applied to Switch: scale its arguments instead", "Switch(a, b)"),
        ("Scale(2, Sum(a, Const(1, 2)))", "Scale cannot be applied to Const: write the product", "Const(1, 2)"),
        ("Offset(Const(1, 2), 1)", "Const cannot stand inside Offset: its value has no index", "Const(1, 2)"),
        ("Round(Sum(a, Const(1, 2)), 2)", "Const cannot stand inside Round: its value has no index", "Const(1, 2)"),
        ("ReplaceIndex(Const(1, 2), t, 0)", "Const cannot stand inside ReplaceIndex: its value has no index",
         "Const(1, 2)"),
        ("Switch(Const(1, 2))", "Const cannot stand inside Switch: its value has no index", "Const(1, 2)"),
        ("IfDefined(Const(1, 2))", "Const cannot stand inside IfDefined", "IfDefined(Const(1, 2))"),
        ("IfDefined(Sum(a, Const(1, 2)))", "Const cannot stand inside IfDefined", "IfDefined(Sum(a, Const(1, 2)))"),
        ("Failover(a, Const(1, 2))", "the two sides of Failover add different constants: 0 and 1",
         "Failover(a, Const(1, 2))"),
        ("Sum(a, Scale(2.0, a))", "node 'a' occurs with two scales, 1 and 2, in one part", "a"),
        ("Switch(Scale(2, a), b, a)", "node 'a' occurs with two scales, 2 and 1, in one part", "a"),
        # grammar
        ("", "expected a descriptor, got the end of the descriptor", ""),
        ("Append()", "expected a node name or a descriptor, got ')'", ")"),
        ("Append(a", "expected ',' or ')', got the end of the descriptor", "a"),
        ("Append a", "expected '(', got 'a'", "a"),
        ("Sum", "expected '(', got the end of the descriptor", "m"),
        ("a b", "expected the end of the descriptor, got 'b'", "b"),
        ("a)", "expected the end of the descriptor, got ')'", ")"),
        ("a, b", "expected the end of the descriptor, got ','", ","),
        ("Ofset(a, 1)", "unknown descriptor type 'Ofset'", "Ofset"),
        ("Offset(a)", "expected ',', got ')'", ")"),
        ("Offset(a, b)", "expected a t-offset (an integer below 2^30), got 'b'", "b"),
        ("Offset(a, 1.5)", "expected a t-offset (an integer below 2^30), got '1.5'", "1.5"),
        ("Offset(a, 1, z)", "expected an x-offset (an integer below 2^30), got 'z'", "z"),
        ("Offset(a, 1, 2, 3)", "expected ')', got ','", ","),
        ("Offset(a, 99999999999)", "expected a t-offset (an integer below 2^30), got '99999999999'", "99999999999"),
        ("Failover(a)", "expected ',', got ')'", ")"),
        ("Failover(a, b, c)", "expected ')', got ','", ","),
        ("IfDefined(a, b)", "expected ')', got ','", ","),
        ("Round(a, 0)", "a t-modulus must be >= 1, got 0", "0"),
        ("Round(a, -3)", "a t-modulus must be >= 1, got -3", "-3"),
        ("Scale(x, a)", "expected a scale (a number), got 'x'", "x"),
        ("Scale(1_0, a)", "expected a scale (a number), got '1_0'", "1_0"),
        ("Scale(nan, a)", "a scale must be finite, got 'nan'", "nan"),
        ("Scale(a, 2)", "expected a scale (a number), got 'a'", "a"),
        ("Const(inf, 2)", "a value must be finite, got 'inf'", "inf"),
        ("Const(1, 0)", "a dimension must be >= 1, got 0", "0"),
        ("Const(1, a)", "expected a dimension (an integer below 2^30), got 'a'", "a"),
        ("ReplaceIndex(a, n, 0)", "expected 't' or 'x', got 'n'", "n"),
        ("ReplaceIndex(a, t, x)", "expected a value (an integer below 2^30), got 'x'", "x"),
        ("3", "expected a node name or a descriptor, got the number 3", "3"),
        ("Append(-1, 0, 1)", "expected a node name or a descriptor, got the number -1", "-1"),
        ("a=b", "expected a node name or a descriptor, got 'a=b'", "a=b"),
    ],
)  # fmt: skip
def test_what_cannot_be(text: str, message: str, marked: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_descriptor(text)
    assert caught.value.message == message
    span = caught.value.span
    assert span is not None
    if text:
        assert text[span.column - 1 : span.column - 1 + span.length] == marked


def test_near_words_are_suggested() -> None:
    with pytest.raises(ConfigError, match="did you mean 'Offset'"):
        parse_descriptor("Ofset(a, 1)")
    with pytest.raises(ConfigError, match="known: Append, Sum"):
        parse_descriptor("qqq(a)")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Sum(a, b)", "Sum( a,b )"),
        ("Failover(a, Offset(b, 1))", " Failover(a,Offset( b,1))"),
        ("Scale(2, a)", "Scale( 2.0, a)"),
        ("Switch(a, b)", "Switch(a,  b)"),
    ],
)
def test_equal_descriptors_may_be_written_differently(one: str, other: str) -> None:
    assert parse_descriptor(one) == parse_descriptor(other)
    assert parse_descriptor(one) != parse_descriptor(one.replace("b", "c").replace("2", "3"))


@pytest.mark.parametrize(
    "text",
    [
        "Switch({0}, Offset({1}, 1))",
        "Round(Failover({0}, {1}), 3)",
        "Sum({0}, IfDefined(ReplaceIndex({1}, x, 1)), Const(2, 1))",
    ],
)
def test_renamed_nodes_are_equal_to_written_ones(text: str) -> None:
    renamed = parse_descriptor(text.format("a", "b")).rename({"a": "b", "b": "c"})
    assert renamed == parse_descriptor(text.format("b", "c"))
    assert hash(renamed) == hash(parse_descriptor(text.format("b", "c")))


def test_leaves_times_depth_are_bounded() -> None:
    text = "IfDefined(" * 99 + "Append({})" + ")" * 99
    with pytest.raises(ConfigError, match="this descriptor is too large: 510 nodes, nested 101 deep"):
        parse_descriptor(text.format(", ".join("a" * 510)))
    assert len(parse_descriptor(text.format(", ".join("a" * 490))).parts) == 490


def test_deep_nesting_ends() -> None:
    for text in ("IfDefined(" * 5000 + "a" + ")" * 5000, "Sum(" * 5000 + "a" + ", b)" * 5000):
        with pytest.raises(ConfigError, match="nested more than 150 deep"):
            parse_descriptor(text)


@pytest.mark.parametrize(
    ("around", "most"),
    [
        ("IfDefined({})", 150),
        ("Sum({}, b)", 150),
        ("Sum(b, {}, c)", 150),
        ("Sum(b, IfDefined({}))", 75),
        ("Sum(IfDefined({}), b)", 75),
        ("Failover({}, b)", 150),
        ("Failover(b, {})", 150),
        ("Switch({})", 150),
        ("Switch(b, {})", 150),
        ("Append({})", 150),
        ("Append(b, {})", 150),
        ("Offset({}, 1)", 150),
        ("Scale(1, {})", 150),
        ("Round({}, 1)", 150),
        ("ReplaceIndex({}, t, 0)", 150),
    ],
)
def test_how_deep_expressions_may_be_nested(around: str, most: int) -> None:
    """Deeper ones are not looked at; whether these are allowed is another question."""

    def complaint(depth: int) -> str:
        before, after = around.split("{}")
        try:
            parse_descriptor(before * depth + "a" + after * depth)
        except ConfigError as error:
            return error.message
        return ""

    assert "nested more than" not in complaint(most)
    assert complaint(most + 1) == "descriptors are nested more than 150 deep"


def test_sums_at_the_end_of_sums_are_not_nested() -> None:
    assert parse_descriptor("Sum(" * 5000 + "a" + ")" * 5000) == parse_descriptor("a")
    count = 3000
    text = "".join(f"Sum(Offset(a, {k}), " for k in range(1, count)) + "a" + ")" * (count - 1)
    descriptor = parse_descriptor(text)
    assert str(descriptor) == text
    assert descriptor == parse_descriptor(f"Sum({', '.join(f'Offset(a, {k})' for k in range(1, count))}, a)")
    assert len(descriptor.slots()) == count


def test_the_shorthand_of_xconfig_is_explained() -> None:
    with pytest.raises(ConfigError, match=r"shorthand of xconfig files.*Offset\(input, -1\), input"):
        parse_descriptor("Append(-1, 0, 1)")
