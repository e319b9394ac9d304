"""Copies of networks: all that the network has, and nothing shared."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

from nnet3 import cn
from nnet3.driver import ComputationCache
from nnet3.errors import NetworkError, ShapeError
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


def _recurrent(x: cn.Node) -> cn.Node:
    d = cn.delay(None, dim=3, name="d")
    gain = cn.constant(np.full((3, 1), 0.5), name="half")
    h = cn.tanh(cn.parameter("W", (3, 2)) @ x + cn.parameter("b", (3, 1)) + cn.diag_times(gain, d), name="h")
    return d.connect(h)


def test_clones_with_parameters_copied_fresh_and_shared() -> None:
    x, other = cn.input("x", 2), cn.input("other", 2)
    h = _recurrent(x)
    clones = {how: cn.clone(h, parameters=how, prefix=f"{how}.") for how in ("copy", "fresh", "share")}
    clones["replaced"] = cn.clone(h, replace={x: 2.0 * other}, parameters="share", prefix="replaced.")
    net = cn.Network(outputs={"h": h, **clones}, dtype=torch.float64)
    batch = {"x": cn.sequences([RANDOM.normal(size=(2, 4))])}
    value = net.evaluate("h", batch)[0]
    np.testing.assert_array_equal(net.evaluate("copy", batch)[0], value)
    np.testing.assert_array_equal(net.evaluate("share", batch)[0], value)
    assert np.abs(net.evaluate("fresh", batch)[0] - value).max() > 1e-3
    assert net.find("fresh.W").value.any()
    assert not net.find("fresh.b").value.any()
    assert net.find("fresh.half").value.tolist() == [[0.5]] * 3
    assert "share.W" not in net.names.values()
    half = {"other": cn.sequences([batch["x"][0] / 2])}
    np.testing.assert_allclose(net.evaluate("replaced", half)[0], value, rtol=1e-12)
    net.set_parameters({"W": np.ones((3, 2))})
    assert not np.array_equal(net.evaluate("share", batch)[0], net.evaluate("copy", batch)[0])


def test_clones_that_cannot_be() -> None:
    x = cn.input("x", 2)
    h = _recurrent(x)
    with pytest.raises(NetworkError, match="'y' is not below 'h'"):
        cn.clone(h, replace={cn.input("y", 2): x})
    with pytest.raises(NetworkError, match="are 'copy', 'fresh' or 'share'"):
        cn.clone(h, parameters="new")
    with pytest.raises(ShapeError, match="times needs as many columns"):
        cn.clone(h, replace={x: cn.input("z", 3)})
    affine = cn.component("NaturalGradientAffineComponent input-dim=2 output-dim=2", x)
    with pytest.raises(NetworkError, match="has parameters of its own: they cannot be shared"):
        cn.clone(affine, parameters="share")


def test_frozen_by_a_pattern() -> None:
    x = cn.input("x", 2)
    cell = cn.macros.lstm(x, 3)
    net = cn.Network(cn.squared_norm(cn.macros.affine(cell.h, 2, name="out")))
    everything = set(net.tensors())
    net.freeze("lstm.W*", "out.?")
    assert everything - set(net.tensors()) == {
        n for n in everything if n.startswith("lstm.W") or n in ("out.W", "out.b")
    }
    net.unfreeze("*")
    assert set(net.tensors()) == everything
    with pytest.raises(NetworkError, match=r"no parameter has a name such as 'gru\.\*'"):
        net.freeze("gru.*")
