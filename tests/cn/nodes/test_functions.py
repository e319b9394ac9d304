"""Functions of the table: values and slopes against PyTorch and finite differences, and Python's operators for them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from nnet3 import cn
from nnet3.errors import NetworkError, ShapeError
from tests.cn.check_node import check_node, random

x, y, one = cn.input("x", 4), cn.input("y", 4), cn.input("one", 1)
column = cn.parameter("column", (4, 1))
P, Q = cn.parameter("P", (4, 6)), cn.parameter("Q", (4, 2))
TWO = {
    cn.divide: lambda a, b: a / b,
    cn.minimum: torch.minimum,
    cn.maximum: torch.maximum,
    cn.less: lambda a, b: (a < b) + 0.0 * (a + b),
    cn.less_equal: lambda a, b: (a <= b) + 0.0 * (a + b),
    cn.greater: lambda a, b: (a > b) + 0.0 * (a + b),
    cn.greater_equal: lambda a, b: (a >= b) + 0.0 * (a + b),
    cn.equal: lambda a, b: (a == b) + 0.0 * (a + b),
}


def name_of(function):
    return getattr(function, "__name__", None)


@pytest.mark.parametrize("function", TWO, ids=name_of)
def test_functions_of_two_operands(function):
    a, b = random(4, 5, positive=True), random(4, 5, seed=1, positive=True)
    check_node(function(x, y), [a, b], TWO[function])
    check_node(function(x, column), [a, b[:, :1]], TWO[function])
    check_node(function(one, x), [b[:1], a], TWO[function])
    repeated = [random(4, 6, positive=True), b[:, :2]]
    check_node(function(P, Q), repeated, lambda left, right: TWO[function](left, right.repeat(1, 3)))
    check_node(function(Q, P), repeated[::-1], lambda left, right: TWO[function](left.repeat(1, 3), right))


def test_functions_of_one_operand():
    check_node(cn.abs(x), [random(4, 5)], torch.abs)
    check_node(cn.sqrt(x), [random(4, 5, positive=True)], torch.sqrt)
    check_node(cn.power(x, 3.0), [random(4, 5)], lambda a: a * a * a)
    check_node(cn.power(x, 0.0), [0.0 * random(4, 5)], lambda a: a**0)
    check_node(cn.power(x, -0.5), [random(4, 5, positive=True)], lambda a: 1 / a.sqrt())
    check_node(cn.clip(x, -0.3, 0.5), [random(4, 5)], lambda a: a.clamp(-0.3, 0.5))
    check_node(cn.clip(P, 0.0, 0.5), [random(4, 6)], lambda a: a.clamp(0.0, 0.5))
    with pytest.raises(NetworkError, match="clip: expected low <= high"):
        cn.clip(x, 1.0, 0.0)


def test_where():
    condition = (random(4, 5, seed=3) > 0).double()
    node = cn.where(cn.input("c", 4), x, y)
    check_node(node, [condition, random(4, 5), random(4, 5, seed=1)], lambda c, a, b: torch.where(c != 0, a, b))
    number = cn.where(cn.input("c", 4), cn.parameter("p", (1, 1)), y)
    operands = [condition, random(1, 1), random(4, 5, seed=1)]
    check_node(number, operands, lambda c, a, b: torch.where(c != 0, a, b), gradients=[1, 2])
    assert cn.Network(outputs={"y": cn.where(x < 0, 0, x)}).evaluate("y", {"x": -np.ones((4, 2))}).any() == np.False_
    with pytest.raises(ShapeError, match="where needs operands of equal shape"):
        cn.where(one, x, y)


def test_pythons_operators():
    X, Y = random(4, 5).numpy(), random(4, 5, seed=1, positive=True).numpy()
    W = np.arange(24.0).reshape(4, 6)
    cases = {
        "division": (x / y, X / Y),
        "by a number": (x / 2, X / 2),
        "of a number": (2 / y, 2 / Y),
        "by NumPy's numbers": (np.int64(2) * x / np.float32(4) + np.float32(1), X / 2 + 1),
        "power": (x**2, X**2),
        "power of a number": (2**x, 2**X),
        "absolute value": (abs(x), np.abs(X)),
        "less": (x < y, X < Y),
        "less or equal": (x <= 0.5, X <= 0.5),
        "greater": (x > y, X > Y),
        "greater or equal": (x >= 0.5, X >= 0.5),
        "a row": (x[1], X[1:2]),
        "the last row": (x[-1], X[-1:]),
        "a slice": (x[1:3], X[1:3]),
        "every other row": (x[::2], X[::2]),
        "backwards": (x[::-1], X[::-1]),
        "transpose": (cn.parameter("W", (4, 6), W).T, W.T),
    }
    net = cn.Network(outputs={name: node for name, (node, _) in cases.items()}, dtype=torch.float64)
    for name, (_, expected) in cases.items():
        given = {"x": X, "y": Y} if name not in ("transpose",) else {}
        used = {n: given[n] for n in given if net.find(n) in cn.Network(outputs=[cases[name][0]]).nodes}
        np.testing.assert_allclose(net.evaluate(name, used), expected, rtol=1e-12, err_msg=name)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: x[4], "there is no row 4 of 'x', which is 4 x S"),
        (lambda: x[-5], "there is no row -5"),
        (lambda: x[3:3], "there are no rows"),
        (lambda: x["a"], "the number of a row or a slice"),
        (lambda: x[True], "the number of a row or a slice"),
        (lambda: x**y, "a node to the power of a number"),
        (lambda: (-2) ** x, "a number above 0 to that of a node, got -2"),
        (lambda: 2 // x, r"// or % of 'x' has no meaning: cn.torch_function"),
        (lambda: (x > 0) & (x < 1), r"of 'greater\(x, 0\)' has no meaning: of comparisons, .* x \* y is 'and'"),
        (lambda: ~(x > 0), "1 - x 'not'"),
        (lambda: x.T, "transpose needs an operand without samples"),
    ],
)
def test_slices_and_operators_that_cannot_be(make, says):
    with pytest.raises((ShapeError, NetworkError), match=says):
        make()
    with pytest.raises(TypeError):
        list(x)
