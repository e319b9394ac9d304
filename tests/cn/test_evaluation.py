"""Values of networks: what is asked for alone is computed, once, from inputs of any kind."""

from __future__ import annotations

import numpy as np
import pytest

from nnet3 import cn
from nnet3.errors import NetworkError, ShapeError
from tests.cn.reference import compare
from tests.cn.small_networks import network, one_hidden_layer
from tests.seeds import RANDOM


def test_values_without_samples() -> None:
    A, B = cn.parameter("A", (3, 2)), cn.parameter("B", (2, 4))
    product = cn.tanh(A @ B, name="product")
    stacked = cn.row_stack(product, cn.row_slice(product, 1, 1), name="stacked")
    x = cn.input("x", 4)
    J = cn.sum_elements(stacked @ x, name="J") + 0.5 * cn.l1_norm(product)
    net = network(J)
    compare(net, {"x": RANDOM.normal(size=(4, 6))})
    commands = [str(line) for line in str(net.program({"x": RANDOM.normal(size=(4, 6))})).splitlines()]
    assert sum("product.Propagate" in line for line in commands) == 1


def test_control_inputs_without_samples() -> None:
    c, x = cn.input("c", (2, 3)), cn.input("x", 3)
    net = network(cn.sum_elements(cn.exp(cn.parameter("W", (1, 2)) @ (c @ x))))
    compare(net, {"x": RANDOM.normal(size=(3, 4)), "c": RANDOM.normal(size=(2, 3))})


def test_only_what_is_asked_for_is_computed_and_only_once() -> None:
    net, inputs = one_hidden_layer()
    net.evaluate("hidden", {"x": inputs["x"]})
    assert net.computed == ("times1", "plus1", "hidden")
    net.evaluate("J", inputs)
    assert net.computed == ("times2", "J")
    net.evaluate("posterior", {"x": inputs["x"]})
    assert net.computed == ("softmax1",)
    net.evaluate("posterior", {"x": inputs["x"].copy()})
    assert net.computed == ()
    net.set_parameters({"V": 2 * net.parameters()["V"]})
    net.evaluate("posterior", inputs)
    assert net.computed == ("times2", "softmax1")
    net.evaluate("posterior", {"x": inputs["x"] + 1})
    assert "times1" in net.computed


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda i: i.pop("x"), "missing inputs: 'x'"),
        (lambda i: i.update(z=1), "there is no input 'z'"),
        (lambda i: i.update(x=i["x"][:2]), "expected 3 rows, got 2"),
        (lambda i: i.update(x=i["x"][:, :2]), "samples as for the other inputs"),
        (lambda i: i.update(x=cn.sequences([i["x"]])), "as for the other inputs"),
        (lambda i: i.update(x=i["x"][0]), "expected a matrix of numbers"),
    ],
)
def test_inputs_that_do_not_fit(change, says) -> None:
    net, inputs = one_hidden_layer()
    change(inputs)
    with pytest.raises((ShapeError, NetworkError), match=says):
        net.gradients(inputs)


def test_numbers_and_arrays_as_operands() -> None:
    x = cn.input("x", 2)
    net = cn.Network(
        outputs=[cn.plus(x, 1, name="a"), cn.times([[1.0, 2.0]], x, name="b"), cn.row_stack(x, [5.0], name="c")]
    )
    a, b, c = net.evaluate(["a", "b", "c"], {"x": np.ones((2, 3))})
    assert (a == 2).all()
    assert (b == 3).all()
    assert (c[2] == 5).all()


def test_networks_of_parameters_alone() -> None:
    W = cn.parameter("W", (2, 2), np.eye(2))
    net = cn.Network(cn.l1_norm(W), {"J2": cn.l2_norm(W @ W)})
    assert net.evaluate("J2") == pytest.approx(2**0.5)
    np.testing.assert_array_equal(net.gradients({})["W"], np.eye(2))
