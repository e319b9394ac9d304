"""Names: those that users give, those that a network gives, and those of what is made for a node."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from nnet3 import cn
from nnet3.errors import NetworkError
from tests.cn.reference import compare
from tests.seeds import RANDOM

LATER = ("gradient", "value", "probe", "operand0", "deriv")


def test_names_of_users_do_not_collide_with_what_is_made_for_a_node() -> None:
    x = cn.input("x", 3)
    W = cn.parameter("W", (3, 3))
    h = cn.tanh(W @ x, name="h")
    for word in LATER:
        h = h + cn.parameter(f"W.{word}", (3, 3)) @ cn.tanh(h, name=f"h.{word}")
    net = cn.Network(cn.sum_elements(h, name="J"), dtype=torch.float64)
    inputs = {"x": RANDOM.normal(size=(3, 4))}
    compare(net, inputs)
    plain = net.gradients(inputs)
    probed = net.gradients(inputs, wrt=["h", *(f"h.{word}" for word in LATER)])
    for name, gradient in plain.items():
        np.testing.assert_array_equal(probed[name], gradient)
    assert all(np.abs(gradient).max() > 0 for gradient in probed.values())


def test_unnamed_nodes_are_named_by_each_network() -> None:
    x = cn.input("x", 2)
    a, b = cn.parameter("A", (2, 2)) @ x, cn.parameter("B", (2, 2)) @ x
    one, other, both = cn.Network(outputs=[a]), cn.Network(outputs=[b]), cn.Network(outputs=[a + b])
    assert one.names[a] == other.names[b] == "times1"
    assert [both.names[a], both.names[b]] == ["times1", "times2"]
    assert both.find("times2") is b
    assert a.name == b.name == ""
    for network in (one, other, both):
        assert "times1" in str(network)
        assert "times1 = times(" in cn.to_text(network)
        assert set(network.copy().names.values()) == set(network.names.values())
    X = {"x": np.eye(2)}
    np.testing.assert_allclose(both.evaluate("plus1", X), one.evaluate(a, X) + other.evaluate(b, X), rtol=1e-6)
    with pytest.raises(NetworkError, match=r"node 'times\(B, x\)' is not part of this network"):
        one.find(b)


def test_an_automatic_name_avoids_those_that_are_taken() -> None:
    x = cn.input("x", 3)
    offset = cn.component("PerElementOffsetComponent dim=3", x)
    net = cn.Network(cn.sum_elements(offset + cn.parameter("component1.offsets", (3, 1)) @ cn.sum_elements(x)))
    assert net.names[offset] == "component2"
    assert {"component1.offsets", "component2.offsets"} <= set(net.parameters())
    first, second = cn.tanh(x), cn.sigmoid(x, name="output1")
    assert list(cn.Network(outputs=[first, second]).outputs) == ["output1_", "output1"]


def test_a_name_that_a_component_has_for_its_parameter_is_taken() -> None:
    x = cn.input("x", 3)
    offset = cn.component("PerElementOffsetComponent dim=3", x, name="c")
    with pytest.raises(NetworkError, match=r"two nodes are called 'c\.offsets'"):
        cn.Network(outputs=[offset + cn.parameter("c.offsets", (3, 1))])


def test_a_name_set_later_is_checked() -> None:
    x = cn.input("x", 3)
    h = cn.tanh(x)
    h.name = "h:gradient"
    with pytest.raises(NetworkError, match="cannot be the name of a node"):
        cn.Network(outputs=[h])
