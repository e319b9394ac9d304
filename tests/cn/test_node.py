"""Nodes: names, formulas, operators, values of stored ones, messages of shapes that do not fit."""

from __future__ import annotations

import numpy as np
import pytest

from nnet3 import cn
from nnet3.cn.node import shorten
from nnet3.errors import NetworkError, ShapeError

x, y = cn.input("x", 3), cn.input("y", 3)


@pytest.mark.parametrize("name", ["a", "_", "A.b-c_9", "größe"])
def test_names_of_all_kinds_are_kept(name) -> None:
    assert cn.tanh(x, name=name).name == name


@pytest.mark.parametrize("name", ["1a", "a b", "-a", ".a", "a:b", "a\n", "a(", 3, b"a"])
def test_what_is_no_name(name) -> None:
    with pytest.raises(NetworkError, match="cannot be the name of a node"):
        cn.tanh(x, name=name)


def test_formulas_stop_at_named_nodes() -> None:
    W, b = cn.parameter("W", (3, 3)), cn.parameter("b", (3, 1))
    assert (W @ x + b).formula == "plus(times(W, x), b)"
    assert repr(cn.tanh(W @ x, name="h")) == "<h : tanh, 3 x S>"
    assert repr(cn.tanh(cn.tanh(x, name="h"))) == "<tanh(h) : tanh, 3 x S>"
    assert cn.constant(0.5).formula == "0.5"
    assert cn.constant([1.0, 2.0]).formula == "parameter()"
    assert cn.parameter("c", (1, 1), 2.0).formula == "c"
    assert cn.mean(cn.input("z", 1)).formula == "mean(z)"
    long = x
    for _ in range(20):
        long = cn.tanh(long)
    assert len(long.formula) == 60
    assert long.formula.startswith("tanh(tanh(")
    assert long.formula.endswith("…")


def residual(layers: int) -> cn.Node:
    """A node with 2^layers paths down to its input."""
    h: cn.Node = cn.input("x", 2)
    for number in range(layers):
        h = h + cn.tanh(cn.parameter(f"W{number}", (2, 2)) @ h)
    return h


@pytest.mark.parametrize("layers", [12, 1200])
def test_formulas_of_deep_graphs_with_many_paths(layers, monkeypatch) -> None:
    """No more nodes are asked than a formula has room for, however deep the graph is and however many paths it has."""
    h, asked = residual(layers), []
    short_formula = cn.Node.short_formula.fget
    monkeypatch.setattr(cn.Node, "short_formula", property(lambda node: asked.append(node) or short_formula(node)))
    assert repr(h).startswith("<plus(plus(plus(")
    assert len(asked) <= 61
    with pytest.raises(ShapeError, match=r"'V' is 3 x 5, 'plus\(plus\("):
        cn.parameter("V", (3, 5)) @ h
    with pytest.raises(NetworkError, match=r"'plus\(plus\(.*…' is neither true nor false"):
        bool(h)
    network = cn.Network(cn.squared_norm(h), {"h": h})
    assert len(str(network).splitlines()) == len(network.nodes) + 2


def test_long_texts_are_shortened() -> None:
    assert [shorten("abcd", length) for length in (5, 4, 3)] == ["abcd", "abcd", "ab…"]


def test_operators_make_the_node_that_they_say() -> None:
    W = cn.parameter("W", (3, 3))
    made = [W @ x, x + y, x - y, x * y, -x, x + 1.0, 1.0 + x, 1.0 - x, x - 1.0, 2.0 * x, x * 2.0]
    types = "times plus minus element_times negate plus plus minus minus scale scale"
    assert " ".join(node.type for node in made) == types
    assert [[o.formula for o in node.operands] for node in made] == [
        *(["W", "x"], ["x", "y"], ["x", "y"], ["x", "y"], ["x"]),
        *(["x", "1"], ["1", "x"], ["1", "x"], ["x", "1"], ["2", "x"], ["2", "x"]),
    ]
    column, matrix = np.ones((3, 1)), np.ones((2, 3))
    assert [node.type for node in (matrix @ x, column * x, x * column, column + x, x - column)] == [
        *("times", "element_times", "element_times", "plus", "minus")
    ]
    assert (column * x).operands[1] is x
    for wrong in (True, "a", None):
        with pytest.raises(NetworkError, match="expected a node, a number or an array"):
            x + wrong


def test_messages_name_operands_shapes_and_the_line() -> None:
    with pytest.raises(ShapeError) as caught:
        cn.square_error(x, cn.tanh(cn.input("z", 4)), name="J")
    first, second = str(caught.value).split("\n")
    assert first == "square_error needs operands of equal shape 'J': 'x' is 3 x S, 'tanh(z)' is 4 x S"
    assert second.strip().startswith(f"{__file__}:")
    assert second.endswith('cn.square_error(x, cn.tanh(cn.input("z", 4)), name="J")')
    code = compile("cn.square_error(x, cn.input('z', 4))", "gone.py", "exec")
    with pytest.raises(ShapeError, match=r"'z' is 4 x S\n  gone.py:1$"):
        exec(code, {"cn": cn, "x": x})


def test_a_node_is_neither_true_nor_false() -> None:
    """Else `max(x, y)` would be x, and the branch of `if x > 0` would be taken whatever x is."""
    x, y = cn.input("x", 2), cn.input("y", 2)
    with pytest.raises(NetworkError, match=r"is neither true nor false: .* cn\.maximum"):
        max(x, y)
    with pytest.raises(NetworkError, match="'x' is neither true nor false"):
        _ = x and y
    assert x in [y, x]
    assert x != y


def test_rows_and_columns_of_a_node() -> None:
    W, x = cn.parameter("W", (2, 3)), cn.input("x", 3)
    assert [(node.rows, node.cols) for node in (W, x, W @ x)] == [(2, 3), (3, None), (2, None)]
