"""Copies of networks: all that the network has, and nothing shared."""

from __future__ import annotations

import copy

import numpy as np
import torch

from nnet3 import cn
from nnet3.driver import ComputationCache
from tests.seeds import RANDOM


def network() -> tuple[cn.Network, dict[str, cn.Sequences]]:
    x = cn.input("x", 3)
    normed = cn.per_dim_mean_var_norm(x, cn.mean(x, name="m"), cn.inv_std_dev(x, name="s"))
    d = cn.delay(None, dim=4, name="d", initial=cn.input("state", 4))
    other = cn.delay(normed, -1, 0.5, name="ahead")
    affine = cn.component("NaturalGradientAffineComponent input-dim=3 output-dim=4", normed, name="affine")
    h = d.connect(cn.tanh(affine + cn.parameter("R", (4, 4)) @ d + cn.parameter("A", (4, 3)) @ other, name="h"))
    J = cn.sum_elements(cn.dropout(0.5, h), name="J")
    net = cn.Network({J: 0.5}, {"h": h}, seed=3, dtype=torch.float64, cache=ComputationCache())
    batch = {n: cn.sequences([RANDOM.normal(size=(r, t))]) for n, r, t in (("x", 3, 5), ("state", 4, 1))}
    net.compute_statistics([batch])
    net.freeze("A")
    net.optimize = False
    return net, batch


def test_a_copy_has_all_that_the_network_has() -> None:
    net, batch = network()
    net.gradients(batch)  # random numbers have been drawn
    for made in (net.copy(), copy.deepcopy(net)):
        assert cn.to_text(made) == cn.to_text(net)
        assert (made.dtype, made.device, made.optimize) == (torch.float64, net.device, False)
        assert made.cache is net.cache
        assert {node.name: node.place for node in made.nodes} == {node.name: node.place for node in net.nodes}
        np.testing.assert_array_equal(made.evaluate("h", batch)[0], net.evaluate("h", batch)[0])
        expected = net.copy().gradients(batch)
        assert set(expected) == {"R", "affine.linear_params", "affine.bias_params"}
        for name, gradient in made.gradients(batch).items():
            np.testing.assert_array_equal(gradient, expected[name])


def test_a_copy_shares_nothing() -> None:
    net, batch = network()
    before = net.parameters()
    value = net.evaluate("h", batch)[0]
    made = net.copy()
    assert not set(map(id, made.nodes)) & set(map(id, net.nodes))
    made.set_parameters({name: array + 1 for name, array in made.parameters().items()})
    made.find("m").memory.add_(1)
    made.freeze("R", "affine")
    made.to(torch.float32)
    for name, array in net.parameters().items():
        np.testing.assert_array_equal(array, before[name])
        assert array.dtype == np.float64
    np.testing.assert_array_equal(net.copy().evaluate("h", batch)[0], value)
    assert set(net.tensors()) == {"R", "affine.linear_params", "affine.bias_params"}
    assert not made.tensors()


def test_statistics_that_are_not_known_are_not_known_in_the_copy() -> None:
    x = cn.input("x", 3)
    net = cn.Network(outputs=cn.mean(x, name="m"))
    assert not net.copy().find("m").is_computed
    net.compute_statistics([{"x": np.ones((3, 2))}])
    assert net.copy().find("m").is_computed
