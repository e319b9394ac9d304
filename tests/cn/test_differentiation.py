"""Gradients: of criteria, of nodes in and out of loops, of what is frozen or has none."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from nnet3 import cn
from nnet3.errors import GradientError
from tests.cn.reference import compare
from tests.cn.small_networks import batch, network, one_hidden_layer, recurrence
from tests.seeds import RANDOM


def test_several_weighted_criteria() -> None:
    x = cn.input("x", 3)
    W = cn.parameter("W", (2, 3))
    first, second = cn.l2_norm(W @ x), cn.l1_norm(W)
    compare(network({first: 1.0, second: -0.3}), {"x": RANDOM.normal(size=(3, 4))})


def test_gradients_of_other_nodes() -> None:
    net, inputs = one_hidden_layer()
    found = net.gradients(inputs, wrt=["x", "hidden", "labels"])
    hidden = found["hidden"]
    assert hidden.shape == (4, 5)
    posterior = net.evaluate("posterior", inputs)
    expected = net.find("V").value.T @ (posterior - inputs["labels"])
    np.testing.assert_allclose(hidden, expected, rtol=1e-8)
    slope = expected * (h := net.evaluate("hidden", inputs)) * (1 - h)
    np.testing.assert_allclose(found["x"], net.find("W").value.T @ slope, rtol=1e-8)
    np.testing.assert_allclose(found["labels"], -np.log(posterior), rtol=1e-8)


def test_gradients_of_nodes_that_the_criterion_does_not_need_are_zero() -> None:
    W, x = cn.parameter("W", (2, 3)), cn.input("x", 3)
    others = [cn.scale(2.0, W, name="twice"), cn.exp(x, name="exp")]
    net = cn.Network(cn.l2_norm(W @ x), others, dtype=torch.float64)
    found = net.gradients({"x": RANDOM.normal(size=(3, 5))}, wrt=others)
    for name, shape in (("twice", (2, 3)), ("exp", (3, 5))):
        np.testing.assert_array_equal(found[name], np.zeros(shape), strict=True)


def test_the_gradient_of_a_node_in_a_loop_goes_round_it() -> None:
    net = recurrence()
    inputs = {"x": batch(3, (3,)), "y": batch(2, (3,))}
    total = net.gradients(inputs, wrt=["h"])["h"][0]
    V, R = net.find("V").value, net.find("R").value
    h = net.evaluate("h", inputs)[0]
    own = V.T @ (V @ h - inputs["y"][0])
    expected = own.copy()
    for t in (1, 0):
        expected[:, t] += R.T @ (expected[:, t + 1] * (1 - h[:, t + 1] ** 2))
    np.testing.assert_allclose(total, expected, rtol=1e-8)


def test_frozen_parameters_have_no_gradient() -> None:
    net, inputs = one_hidden_layer()
    every = net.gradients(inputs)
    net.freeze("W", "b")
    assert set(net.gradients(inputs)) == {"V"}
    assert ":gradient" not in str(net.program(inputs)).split("V:gradient")[1]
    net.unfreeze("W", "b")
    np.testing.assert_array_equal(net.gradients(inputs)["W"], every["W"])


def test_criteria_without_gradient() -> None:
    x, y = cn.input("x", 3), cn.input("y", 3)
    W = cn.parameter("W", (3, 3))
    errors = cn.classification_error(W @ x, y, name="errors")
    net = network(errors)
    inputs = {"x": RANDOM.normal(size=(3, 4)), "y": np.eye(3)[:, [0, 1, 2, 0]]}
    assert net.evaluate("errors", inputs) <= 4
    with pytest.raises(GradientError, match=r"'errors': classification_error has no gradient"):
        net.gradients(inputs)


def test_gradients_do_not_depend_on_what_lies_in_their_memory() -> None:
    """Also of a parameter that is used twice, in a loop and outside, and of one that the criterion does not need."""
    x, unused = cn.input("x", 3), cn.parameter("unused", (2, 2), RANDOM.normal(size=(2, 2)))
    W, before = cn.parameter("W", (3, 3), RANDOM.normal(size=(3, 3))), cn.delay(None, dim=3)
    h = cn.tanh(cn.plus(W @ x, W @ before) + cn.parameter("b", (3, 1)), name="h")
    before.connect(h)
    J = cn.squared_norm(h) + cn.squared_norm(W)
    net = cn.Network(J, outputs=[cn.squared_norm(unused)], dtype=torch.float64)
    inputs = {"x": cn.sequences([RANDOM.normal(size=(3, length)) for length in (4, 2)])}
    compare(net, inputs)
    wanted = net.gradients(inputs)
    for tensor in net.tensors().values():
        assert tensor.grad is not None
        tensor.grad.fill_(torch.nan)
    net.backward(inputs)
    found = {name: tensor.grad.numpy().T for name, tensor in net.tensors().items() if tensor.grad is not None}
    assert found.keys() == wanted.keys() == {"unused", "W", "b"}
    for name, gradient in wanted.items():
        np.testing.assert_array_equal(found[name], gradient)
    assert not wanted["unused"].any()
