"""Functions of columns against PyTorch and finite differences."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from nnet3 import cn
from nnet3.errors import NetworkError, ShapeError
from tests.cn.check_node import check_node, random

x, P = cn.input("x", 4), cn.parameter("P", (4, 6))
REDUCTIONS = {
    cn.sum_rows: lambda a: a.sum(0, keepdim=True),
    cn.mean_rows: lambda a: a.mean(0, keepdim=True),
    cn.max_rows: lambda a: a.amax(0, keepdim=True),
    cn.min_rows: lambda a: a.amin(0, keepdim=True),
    cn.log_sum_exp_rows: lambda a: torch.logsumexp(a, 0, keepdim=True),
}


@pytest.mark.parametrize("function", REDUCTIONS, ids=lambda function: function.__name__)
def test_reductions(function):
    check_node(function(x), [random(4, 5)], REDUCTIONS[function])
    check_node(function(P), [random(4, 6)], REDUCTIONS[function])


def test_equal_elements_share_the_gradient_of_the_greatest():
    check_node(
        cn.max_rows(x), [torch.ones(4, 2, dtype=torch.float64)], lambda a: a.amax(0, keepdim=True), differences=False
    )


@pytest.mark.parametrize("places", [(0, 2, 2), (3, -1, 4), (1, 1, 2), (3, -3, 2)])
def test_every_so_many_rows(places):
    first, step, rows = places
    chosen = list(range(first, first + step * rows, step))
    check_node(cn.row_step(x, *places), [random(4, 5)], lambda a: a[chosen])
    check_node(cn.row_step(P, *places), [random(4, 6)], lambda a: a[chosen])


def test_transpose():
    check_node(cn.transpose(P), [random(4, 6)], lambda a: a.T)
    net = cn.Network(cn.squared_norm(cn.parameter("V", (6, 2)) @ (P.T @ x)[:2]), dtype=torch.float64)
    assert cn.check_gradients(net, {"x": random(4, 3).numpy()}).worst < 1e-6


def test_layer_norm():
    check_node(cn.layer_norm(x), [random(4, 5)], lambda a: torch.nn.functional.layer_norm(a.T, (4,)).T)
    gain, bias = cn.parameter("gain", (4, 1), 0.5), cn.parameter("bias", (4, 1), 2.0)
    net = cn.Network(outputs=[cn.layer_norm(x, gain, bias, epsilon=0.1, name="v")], dtype=torch.float64)
    X = random(4, 5)
    expected = torch.nn.functional.layer_norm(
        X.T, (4,), torch.full((4,), 0.5).double(), torch.full((4,), 2.0).double(), 0.1
    )
    np.testing.assert_allclose(net.evaluate("v", {"x": X}), expected.T, rtol=1e-10)


def test_batch_norm_has_two_modes():
    gain, bias = cn.parameter("gain", (4, 1), 0.5), cn.parameter("bias", (4, 1), 2.0)
    net = cn.Network(cn.sum_elements(cn.tanh(cn.batch_norm(x, gain, bias, name="v"))), dtype=torch.float64)
    X = {"x": 3 + 2 * random(4, 50).numpy()}
    np.testing.assert_allclose(net.values_in_training([net.find("v")], X)[0].mean(1), 2.0, atol=1e-9)
    assert cn.check_gradients(net, X).worst < 1e-5
    net.backward(X)
    np.testing.assert_allclose(net.evaluate("v", X).mean(1), 2.0, atol=1e-6)
    half = {"x": X["x"][:, :7]}
    np.testing.assert_allclose(net.evaluate("v", half), net.evaluate("v", X)[:, :7], rtol=1e-9)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: cn.row_step(x, 1, 2, 3), "row_step to row 5 needs more rows"),
        (lambda: cn.row_step(x, 1, -1, 3), "expected rows from 0 on"),
        (lambda: cn.row_step(x, 1, 0, 3), "expected rows from 0 on"),
        (lambda: cn.nodes.columns.ColumnReduction("median"), "expected one of sum, mean"),
        (lambda: cn.layer_norm(x, epsilon=0.0), "an epsilon greater than 0"),
    ],
)
def test_what_cannot_be(make, says):
    with pytest.raises((ShapeError, NetworkError), match=says):
        make()
