from __future__ import annotations

import re

import pytest

from nnet3.errors import ConfigError, Span
from nnet3.model.xconfig.expansion import Output
from nnet3.model.xconfig.input_descriptor import Known, ResolvedInput, Scope, resolve_input
from nnet3.model.xconfig.line import XconfigValue
from nnet3.model.xconfig.term import name, rounded


def scope() -> Scope:
    """Layers: input (3), ivector (2), a.b (5, node a.b.relu), stats (an expression, 4), output (only output.affine)."""
    layers = [
        Known("input", Output(name("input"), 3)),
        Known("ivector", Output(name("ivector"), 2)),
        Known("a.b", Output(name("a.b.relu"), 5)),
        Known("output", None, {"affine": Output(name("output.affine"), 7)}),
        Known("stats", Output(rounded(name("stats-pooling"), 9), 4)),
    ]
    return Scope([Known("old", Output(name("old"), 6))], layers, {"later": 12})


def resolve(text: str) -> ResolvedInput:
    whole = Span("<test>", 1, 1, len(text), text)
    value = XconfigValue(text, tuple(range(len(text))), whole, 0, whole)
    return resolve_input(value, "[-1]", scope(), whole)


@pytest.mark.parametrize(
    ("text", "normal", "nodes", "dim"),
    [
        ("input", "input", "input", 3),
        ("0", "stats", "Round(stats-pooling, 9)", 4),
        ("-3", "Offset(stats, -3)", "Offset(Round(stats-pooling, 9), -3)", 4),
        ("+2", "Offset(stats, 2)", "Offset(Round(stats-pooling, 9), 2)", 4),
        ("a.b@-1", "Offset(a.b, -1)", "Offset(a.b.relu, -1)", 5),
        ("a.b @ 0", "a.b", "a.b.relu", 5),
        ("[-3]@2", "Offset(a.b, 2)", "Offset(a.b.relu, 2)", 5),
        ("[-2].affine", "output.affine", "output.affine", 7),
        ("output.affine", "output.affine", "output.affine", 7),
        ("old@1", "Offset(old, 1)", "Offset(old, 1)", 6),
        (
            "Append(input@-1,input, ReplaceIndex(ivector,t,0))",
            "Append(Offset(input, -1), input, ReplaceIndex(ivector, t, 0))",
            "Append(Offset(input, -1), input, ReplaceIndex(ivector, t, 0))",
            8,
        ),
        ("Offset(input, 0)", "Offset(input, 0)", "Offset(input, 0)", 3),
        ("Offset(input, 1, -2)", "Offset(input, 1, -2)", "Offset(input, 1, -2)", 3),
        ("Scale(1, input)", "Scale(1.0, input)", "Scale(1.0, input)", 3),
        ("Scale(1e-05, input)", "Scale(1e-05, input)", "Scale(1e-05, input)", 3),
        ("Const(0.5, 12)", "Const(0.5, 12)", "Const(0.5, 12)", 12),
        ("Sum(input, Const(1,3))", "Sum(input, Const(1.0, 3))", "Sum(input, Const(1.0, 3))", 3),
        ("Failover(a.b,IfDefined(-0))", None, None, 0),
        (
            "Failover(a.b, IfDefined(a.b))",
            "Failover(a.b, IfDefined(a.b))",
            "Failover(a.b.relu, IfDefined(a.b.relu))",
            5,
        ),
        ("Round(input, 3)", "Round(input, 3)", "Round(input, 3)", 3),
        ("Switch(input, input@1)", "Switch(input, Offset(input, 1))", "Switch(input, Offset(input, 1))", 3),
    ],
)
def test_each_form_has_its_normal_one(text: str, normal: str | None, nodes: str, dim: int) -> None:
    if normal is None:
        with pytest.raises(ConfigError, match="different dimensions"):
            resolve(text)
        return
    found = resolve(text)
    assert (str(found.normal), str(found.nodes), found.dim) == (normal, nodes, dim)
    assert resolve(normal) == found


@pytest.mark.parametrize(
    ("text", "marked", "message"),
    [
        ("Append(inptu)", "inptu", "unknown layer 'inptu'"),
        ("Append(input, later)", "later", "layer 'later' comes only below, in line 12"),
        ("output", "output", "'output' is an output: nothing can follow it"),
        ("output.relu", "output.relu", "layer 'output' has no output 'output.relu'"),
        ("[-6]", "[-6]", "[-6]: there are only 5 layers above"),
        ("[-0]", "[-0]", "stands for a layer above"),
        ("-1@2", "@", "expected the end of the descriptor, got '@'"),
        ("Append(input)@2", "@", "expected the end of the descriptor, got '@'"),
        ("Append(input", "t", "expected ',' or ')', got the end"),
        ("Apend(input)", "Apend", "unknown descriptor type 'Apend'"),
        ("Append", "d", "expected '(', got the end"),
        ("Append()", ")", "expected a layer, a time offset or a descriptor, got ')'"),
        ("Sum(input, ivector)", "Sum", "Sum of different dimensions: input has 3, ivector has 2"),
        ("Round(input, 0)", "0", "a period must be >= 1, got 0"),
        ("Offset(input, 1.5)", "1.5", "expected a time offset (an integer up to 2^30), got '1.5'"),
        ("ReplaceIndex(input, n, 0)", "n", "expected 't' or 'x', got 'n'"),
        ("Scale(nan, input)", "nan", "a scale must be finite"),
        ("Scale(input, 2)", "input", "expected a scale (a number), got 'input'"),
        ("Failover(input)", ")", "expected ',', got ')'"),
        ("IfDefined(input, input)", ",", "expected ')', got ','"),
        ("input ivector", "ivector", "expected the end of the descriptor, got 'ivector'"),
        ("", "", "expected a layer or a descriptor, got the end"),
        ("IfDefined(" * 200 + "input" + ")" * 200, "IfDefined", "nested more than 100 deep"),
    ],
)
def test_errors_point_at_their_word(text: str, marked: str, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)) as caught:
        resolve(text)
    span = caught.value.span
    assert span is not None
    assert span.text[span.column - 1 : span.column - 1 + span.length] == marked


def test_no_layer_above() -> None:
    whole = Span("<test>", 1, 1, 4, "line")
    with pytest.raises(ConfigError, match="there is no layer above"):
        resolve_input(None, "[-1]", Scope(), whole)


def test_a_layer_with_the_name_of_an_operator() -> None:
    whole = Span("<test>", 1, 1, 4, "line")
    named = Scope([], [Known("Append", Output(name("Append.relu"), 3))])
    with pytest.raises(ConfigError, match="a layer named 'Append' cannot be referred to"):
        resolve_input(None, "[-1]", named, whole)
