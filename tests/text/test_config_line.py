"""Lines of key=value: what they parse to, and where errors point."""

from __future__ import annotations

import pytest

from nnet3.base.text import ConfigLine, did_you_mean, is_valid_name, parse_config_line, read_config_lines
from nnet3.errors import ConfigError, Span


def parse(text: str) -> ConfigLine:
    return parse_config_line(Span("net.config", 3, 1, len(text), text))


def values(line: ConfigLine) -> dict[str, str]:
    return {key: value.text for key, value in line.values.items()}


@pytest.mark.parametrize(
    ("text", "first", "expected"),
    [
        ("component name=a type=NoOp dim=10", "component", {"name": "a", "type": "NoOp", "dim": "10"}),
        (
            "output-node name=output input=Sum(a, b) objective=linear",
            "output-node",
            {"name": "output", "input": "Sum(a, b)", "objective": "linear"},
        ),
        ("component name=c type=X s='a=b c'", "component", {"name": "c", "type": "X", "s": "a=b c"}),
        ('x s="it\'s" t=\'say "no"\'', "x", {"s": "it's", "t": 'say "no"'}),
        ("dim=10", "", {"dim": "10"}),
        ("x input=Append(a, Offset(b, -1)) dim=3", "x", {"input": "Append(a, Offset(b, -1))", "dim": "3"}),
        ("x a=1 a=2", "x", {"a": "1"}),
        ("x a=  b=2", "x", {"a": "", "b": "2"}),
        ("x a=", "x", {"a": ""}),
        ("x a= 1 2 ", "x", {"a": "1 2"}),
        ("x a=1\tb=2", "x", {"a": "1", "b": "2"}),
        ("x a=b=c", "x", {"a": "b=c"}),
        ("x a=''", "x", {"a": ""}),
        ("x a=' b '  c=1", "x", {"a": " b ", "c": "1"}),
        ("x", "x", {}),
        ("  x  a=1  ", "x", {"a": "1"}),
        ("x learning-rate=1e-3 _y.z=2", "x", {"learning-rate": "1e-3", "_y.z": "2"}),
    ],
)
def test_a_line_is_its_first_word_and_values(text: str, first: str, expected: dict[str, str]) -> None:
    line = parse(text)
    assert line.first_token == first
    assert values(line) == expected


@pytest.mark.parametrize(
    ("text", "message", "marked", "hint"),
    [
        ("component name = a", "'name ' is not a valid key", "name ", "write key=value without spaces around '='"),
        ("1x a=2", "'1x' is not a valid first word of a line", "1x", ""),
        ("x a='1", "the quote ' is never closed", "'1", ""),
        ('x a=1 b="2', 'the quote " is never closed', '"2', ""),
        ("x y", "expected key=value, got 'y'", "y", ""),
        ("x a='1' rest", "expected key=value, got 'rest'", "rest", ""),
        ("x 1a=2", "'1a' is not a valid key", "1a", ""),
        ("x =2", "'' is not a valid key", "=", ""),
        ("\r", "expected key=value, got ''", "\r", ""),
    ],
)
def test_a_line_that_does_not_parse(text: str, message: str, marked: str, hint: str) -> None:
    if not text.strip():
        assert read_config_lines(text) == []  # where Kaldi stops, a lone carriage return is an empty line
        return
    with pytest.raises(ConfigError) as caught:
        parse(text)
    place, shown, caret = str(caught.value).split("\n")
    column = text.index(marked) + 1
    assert place == f"net.config:3:{column}: {message}"
    assert shown.strip() == text.strip()
    assert caret.strip() == "^" * max(1, len(marked)) + (f" {hint}" if hint else "")
    assert caret.index("^") - 2 == column - 1


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", []),
        ("# all comment\n \t \n\nx a=1 # b=2\n", [("x", {"a": "1"})]),
        ("x a='1#2", None),
        ("x a=1\r\ny b=2\r\n", [("x", {"a": "1"}), ("y", {"b": "2"})]),
        ("  x a=1\n\ty b=2", [("x", {"a": "1"}), ("y", {"b": "2"})]),
    ],
)
def test_lines_and_comments(text: str, lines: list[tuple[str, dict[str, str]]] | None) -> None:
    if lines is None:
        with pytest.raises(ConfigError, match="never closed"):
            read_config_lines(text)  # quotes do not protect a #
        return
    assert [(line.first_token, values(line)) for line in read_config_lines(text)] == lines


def test_values_know_where_they_stand() -> None:
    (line,) = read_config_lines("\n\n  x  a=Sum(b, c) d='e f' # g", "file")
    for key, text in (("a", "Sum(b, c)"), ("d", "e f")):
        value = line.values[key]
        assert value.span.text[value.span.column - 1 :][: value.span.length] == text
        assert value.key_span.text[value.key_span.column - 1 :][: value.key_span.length] == key
        assert value.span.place == f"file:3:{value.span.column}"
    assert line.span.text[line.span.column - 1 :][: line.span.length] == "x"


@pytest.mark.parametrize(
    ("word", "valid"),
    [("a", True), ("_", True), ("a1.b-c_d", True), ("", False), ("1a", False), ("-a", False), (".a", False),
     ("a b", False), ("a,b", False), ("é", False), ("a\n", False)],
)  # fmt: skip
def test_names_begin_with_a_letter(word: str, valid: bool) -> None:
    assert is_valid_name(word) == valid


def test_getters_convert() -> None:
    line = parse("x i=-7 f=1e-2 t=True f2=false l=1:-2,3, s='a b' n='x=1 y=2'")
    assert line.integer("i") == -7
    assert line.number("f") == 0.01
    assert line.number("i") == -7.0
    assert (line.boolean("t"), line.boolean("f2")) == (True, False)
    assert line.integers("l") == [1, -2, 3]
    assert line.string("s") == "a b"
    assert values(line.nested("n")) == {"x": "1", "y": "2"}
    assert (line.integer("no", 3), line.number("no", 0.5), line.boolean("no", True)) == (3, 0.5, True)
    assert (line.integers("no", [1]), line.string("no", "s"), line.has("no"), line.has("i")) == ([1], "s", False, True)
    line.finish()


@pytest.mark.parametrize(
    ("text", "getter", "options", "message"),
    [
        ("1.5", "integer", {}, "'k' must be an integer, got '1.5'"),
        ("", "integer", {}, "'k' must be an integer, got ''"),
        ("1 2", "integer", {}, "'k' must be an integer, got '1 2'"),
        ("3000000000", "integer", {}, "'k' must be an integer that fits 32 bits, got '3000000000'"),
        ("0", "integer", {"minimum": 1}, "'k' must be >= 1, got 0"),
        ("9", "integer", {"maximum": 8}, "'k' must be <= 8, got 9"),
        ("x", "number", {}, "'k' must be a number, got 'x'"),
        ("1_0", "number", {}, "'k' must be a number, got '1_0'"),
        ("1_0", "integer", {}, "'k' must be an integer, got '1_0'"),
        ("\u0663", "integer", {}, "'k' must be an integer, got '\u0663'"),
        ("\u0663", "number", {}, "'k' must be a number, got '\u0663'"),
        ("inf", "number", {}, "'k' must be a finite number, got 'inf'"),
        ("nan", "number", {}, "'k' must be a finite number, got 'nan'"),
        ("0", "number", {"above": 0.0}, "'k' must be > 0, got 0"),
        ("1", "number", {"below": 1.0}, "'k' must be < 1, got 1"),
        ("-0.5", "number", {"minimum": 0.0}, "'k' must be >= 0, got -0.5"),
        ("yes", "boolean", {}, "'k' must be true or false, got 'yes'"),
        ("", "boolean", {}, "'k' must be true or false, got ''"),
        ("1,a", "integers", {}, "'k' must be a list of integers, got '1,a'"),
        ("1:2", "integers", {"separators": ","}, "'k' must be a list of integers, got '1:2'"),
        ("1,3000000000", "integers", {}, "'k' must be a list of integers that fit 32 bits, got '1,3000000000'"),
    ],
)
def test_wrong_values_are_refused_at_their_place(
    text: str, getter: str, options: dict[str, object], message: str
) -> None:
    line = parse(f"x k={text}")
    line.subject = "component 'c'"
    with pytest.raises(ConfigError) as caught:
        getattr(line, getter)("k", **options)
    assert str(caught.value).split("\n")[0] == f"net.config:3:5: component 'c': {message}"


def test_a_missing_key_says_which_one_may_be_misspelt() -> None:
    line = parse("component name=a dimm=3")
    line.string("name")
    with pytest.raises(ConfigError, match="'dim=' is missing") as caught:
        line.integer("dim")
    assert str(caught.value).endswith("^^^^^^^^^ is it the misspelt 'dimm'?")


@pytest.mark.parametrize(
    ("key", "given", "is_misspelt"),
    [
        ("dim", "dm", True),
        ("dim", "dmi", True),
        ("type", "tpye", True),
        ("input-dim", "input_dim", True),
        ("input-dim", "inputdim", True),
        ("num-filters-in", "num-filter-in", True),
        ("num-filters-in", "num-filters-out", False),
        ("input-dim", "output-dim", False),
        ("input-x-dim", "input-y-dim", False),
        ("component1", "component2", False),
        ("dim", "dim-offset", False),
    ],
)
def test_a_misspelt_key_is_told_from_a_counterpart(key: str, given: str, is_misspelt: bool) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(f"x {given}=3").integer(key)
    assert (f"is it the misspelt '{given}'?" in str(caught.value)) == is_misspelt


def test_finish_points_at_the_first_unknown_key() -> None:
    line = parse("component name=a bais=1 dim=3")
    line.string("name")
    line.integer("dim")
    line.number("bias", 0.0)
    with pytest.raises(ConfigError) as caught:
        line.finish()
    assert str(caught.value).split("\n") == [
        "net.config:3:18: unknown key 'bais'",
        "  component name=a bais=1 dim=3",
        "                   ^^^^ did you mean 'bias'?",
    ]


def test_a_nested_line_points_into_the_outer_one() -> None:
    line = parse("component c='type=X dim=a'")
    with pytest.raises(ConfigError) as caught:
        line.nested("c").integer("dim")
    caret = str(caught.value).split("\n")[2]
    assert caret.index("^") - 2 == line.span.text.index("a'")


def test_a_long_line_is_cut_round_the_caret() -> None:
    text = "x " + " ".join(f"key{i}=value{i}" for i in range(60)) + " last=?"
    with pytest.raises(ConfigError) as caught:
        parse(text).integer("key30")
    _, shown, caret = str(caught.value).split("\n")
    assert len(shown) < 120
    assert shown.startswith("  …")
    assert shown.endswith("…")
    assert shown[caret.index("^") : caret.rindex("^") + 1] == "value30"


@pytest.mark.parametrize(
    ("word", "hint"),
    [("Sgmoid", "did you mean 'Sigmoid'?"), ("SIGMOID", "did you mean 'Sigmoid'?"), ("qqq", ""), ("", "")],
)
def test_did_you_mean(word: str, hint: str) -> None:
    assert did_you_mean(word, ["Sigmoid", "Tanh"]) == hint


def test_did_you_mean_without_candidates() -> None:
    assert did_you_mean("a", []) == ""
