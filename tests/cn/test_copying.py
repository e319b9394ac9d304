"""Copies of networks: all that the network has, and nothing shared."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

from nnet3 import cn
from nnet3.engine.driver import ComputationCache
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
    with pytest.raises(NetworkError, match="has parameters of its own: they can be copied, not be"):
        cn.clone(affine, parameters="share")
    with pytest.raises(NetworkError, match="not be shared or drawn anew"):
        cn.clone(affine, parameters="fresh")


def test_fresh_parameters_keep_nothing_of_what_was_learnt() -> None:
    x = cn.input("x", 2)
    h = cn.macros.affine(x, 3, name="a")
    cn.Network(outputs={"h": h}).set_parameters({"a.W": np.full((3, 2), 7.0), "a.b": np.full((3, 1), 7.0)})
    net = cn.Network(outputs={"h": cn.clone(h, parameters="fresh")})
    assert not net.find("a.b").value.any()
    assert np.abs(net.find("a.W").value).max() < 2


def test_an_operand_of_a_loaded_network_is_replaced(tmp_path) -> None:
    """Parameters stay those of the network, also those of components; what the change does not reach is the same."""
    x, y = cn.input("x", 2), cn.input("y", 2)
    low = cn.macros.affine(x, 3, name="low")
    h = cn.component("NaturalGradientAffineComponent input-dim=3 output-dim=2", cn.tanh(low, name="t"), name="h")
    cn.save(cn.Network(cn.square_error(h, y, name="J"), {"h": h}), tmp_path / "net.cn")
    net = cn.load(tmp_path / "net.cn")
    wide = cn.input("wide", 5)
    made = net.replace({"x": cn.parameter("P", (2, 5)) @ wide})
    P, batch = made.find("P").value, {"wide": RANDOM.normal(size=(5, 4)), "y": RANDOM.normal(size=(2, 4))}
    expected = net.evaluate("h", {"x": P @ batch["wide"]})
    np.testing.assert_allclose(made.evaluate("h", batch), expected, rtol=1e-5, atol=1e-6)
    assert made.find("low.W") is net.find("low.W")
    made.freeze("low.*")
    before = net.parameters()
    cn.train(made, [batch], learning_rate=0.1, epochs=2)
    after = net.parameters()
    assert {name for name in before if not np.array_equal(before[name], after[name])} == {
        "h.linear_params",
        "h.bias_params",
    }
    np.testing.assert_array_equal(made.parameters()["h.bias_params"], after["h.bias_params"])
    assert made.replace({"t": cn.relu(made.find("low"), name="t")}).find("low") is made.find("low")


def test_a_layer_is_put_into_a_loop() -> None:
    """What takes the place of the state uses the state: delays then give what the layer makes of it."""
    net = cn.Network(outputs={"h": _recurrent(cn.input("x", 2))}, dtype=torch.float64)
    batch = {"x": cn.sequences([RANDOM.normal(size=(2, 4)), RANDOM.normal(size=(2, 2))])}
    old = net.evaluate("h", batch)
    made = net.replace({"h": cn.scale(0.5, net.find("h"), name="half_of_h")})
    W, b, x = net.find("W").value, net.find("b").value, batch["x"][0]
    state = np.zeros((3, 1))
    for t in range(4):
        state = 0.5 * np.tanh(W @ x[:, t : t + 1] + b + 0.5 * state)
        np.testing.assert_allclose(made.evaluate("h", batch)[0][:, t : t + 1], state, rtol=1e-9)
    for one, other in zip(net.evaluate("h", batch), old, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_loop_is_moved_to_another_axis() -> None:
    """A twin for questions and answers of other lengths, and a network whose input lies elsewhere."""
    x, answer = cn.input("x", 2), cn.input("answer", 2, axis="answer")
    h = _recurrent(x)
    twin = cn.clone(h, replace={x: answer}, parameters="share", prefix="twin.")
    net = cn.Network(outputs={"one": cn.sequence.last(h), "other": cn.sequence.last(twin)}, dtype=torch.float64)
    long, short = RANDOM.normal(size=(2, 5)), RANDOM.normal(size=(2, 3))
    batch = {"x": cn.sequences([long, short]), "answer": cn.sequences([short, long])}
    one, other = net.evaluate(["one", "other"], batch)
    np.testing.assert_allclose(one, other[:, ::-1], rtol=1e-12)
    assert {node.name: str(node.shape) for node in net.nodes if node.lag} == {"d": "3 x S", "twin.d": "3 x S[answer]"}
    moved = cn.Network(outputs={"h": h}, dtype=torch.float64).replace({"x": answer})
    assert moved.evaluate("h", {"answer": batch["answer"]})[1].shape == (3, 5)
    back = moved.replace({"answer": cn.input("again", 2)})
    assert str(back.find("h").shape) == "3 x S"


def test_statistics_above_what_is_replaced_are_unknown() -> None:
    x = cn.input("x", 2)
    h = cn.tanh(x, name="h")
    of_x, of_h = cn.mean(x, name="of_x"), cn.mean(h, name="of_h")
    net = cn.Network(outputs={"y": cn.plus(h - of_h, of_x, name="y")})
    batch = {"x": RANDOM.normal(size=(2, 5))}
    net.compute_statistics([batch])
    made = net.replace({"h": 2.0 * h})
    assert (made.find("of_x") is of_x, made.find("of_h").is_computed, of_h.is_computed) == (True, False, True)
    with pytest.raises(NetworkError, match="the statistic 'of_h' is not known yet: call compute_statistics first"):
        made.evaluate("y", batch)
    made.compute_statistics([batch])
    np.testing.assert_allclose(made.find("of_h").value, 2 * of_h.value, rtol=1e-6)
    twin = cn.clone(net.find("y"), replace={x: cn.input("other", 2)}, prefix="twin.")
    assert not any(node.is_computed for node in cn.Network(outputs=[twin])._nodes.statistics)
    assert all(n.is_computed for n in cn.Network(outputs=[cn.clone(net.find("y"))])._nodes.statistics)


def test_replacements_that_cannot_be() -> None:
    net = cn.Network(outputs={"h": _recurrent(cn.input("x", 2))})
    with pytest.raises(NetworkError, match="there is no node 'hh' in the network; did you mean 'h'"):
        net.replace({"hh": cn.input("y", 3)})
    with pytest.raises(ShapeError, match=r"times needs as many columns in the first operand as rows.*'y'"):
        net.replace({"x": cn.input("y", 3)})
    with pytest.raises(ShapeError, match="delay of 3 rows needs operands of 3 x S"):
        cn.Network(outputs=[cn.tanh(net.find("h"))]).replace({net.find("h"): cn.tanh(net.find("d"))[:2]})
    with pytest.raises(NetworkError, match="takes the place of 'x' there is a loop without a delay"):
        net.replace({"x": net.find("h")[:2]})
    with pytest.raises(NetworkError, match="what takes the place of 'x': expected a node"):
        net.replace({"x": "y"})
    state = cn.Network(outputs=[cn.delay(cn.input("x", 2), initial=cn.input("s", 2))])
    with pytest.raises(NetworkError, match="the initial state must be an input"):
        state.replace({"s": 2.0 * cn.input("t", 2)})


def test_replaced_again_and_saved(tmp_path) -> None:
    """Names of a loaded network stay, so that it can be edited, saved and gone on with."""
    net = cn.Network(outputs={"h": _recurrent(cn.input("x", 2))}, dtype=torch.float64)
    batch = {"x": cn.sequences([RANDOM.normal(size=(2, 4))])}
    for _ in range(2):
        net = net.replace({"x": cn.tanh(net.find("x"))})
        cn.save(net, tmp_path / "net.cn")
        net = cn.load(tmp_path / "net.cn")
    twice = {"x": cn.sequences([np.tanh(np.tanh(batch["x"][0]))])}
    assert set(net.parameters()) == {"W", "b", "half"}
    original = cn.Network(outputs={"h": _recurrent(cn.input("x", 2))}, dtype=torch.float64)
    np.testing.assert_allclose(net.evaluate("h", batch)[0], original.evaluate("h", twice)[0], rtol=1e-9)


def test_names_by_path() -> None:
    def tower(x: cn.Node) -> cn.Node:
        return cn.macros.affine(cn.macros.lstm(x, 2).h, 2, name="top")

    x = cn.input("x", 2)
    with cn.scope("left"):
        left = tower(x)
        with cn.scope("deep"):
            deep = cn.tanh(left, name="t")
    with cn.scope("right"):
        right = tower(x)
        again = cn.from_text("# computational network 1\nz = input(rows=2)\noutput z = z\n")
    net = cn.Network(outputs={"both": cn.row_stack(left, right, deep)})
    assert {"left.top", "right.top", "left.lstm.Wxi", "right.lstm.h", "left.deep.t", "x"} <= set(net.names.values())
    assert [node.name for node in again.nodes] == ["z"]
    net.freeze("left.*")
    assert all(name.startswith("right.") for name in net.tensors())
    with pytest.raises(NetworkError, match="cannot be the name of a node"), cn.scope("a b"):
        pass


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
    fixed = cn.Network(cn.squared_norm(cn.scale(cn.constant(2.0, name="two"), cn.parameter("W", (2, 2)))))
    for each in (fixed, cn.from_text(cn.to_text(fixed))):
        each.freeze("*")
        each = cn.from_text(cn.to_text(each))
        each.unfreeze("*")
        assert set(each.tensors()) == {"W"}
        each.unfreeze("two")
        each.freeze("*")  # a constant that is trained, too
        assert not each.tensors()
    net.freeze("lstm")  # a path
    assert set(net.tensors()) == {"out.W", "out.b"}
    net.freeze("out")  # a node is called so, too
    assert not net.tensors()
    with pytest.raises(NetworkError, match=r"no parameter has a name such as 'gru\.\*'"):
        net.freeze("gru.*")
    with pytest.raises(NetworkError, match="there is no node 'ltsm' in the network; did you mean 'lstm"):
        net.freeze("ltsm")
    with pytest.raises(NetworkError, match="'x' is no parameter, but: input"):
        net.freeze("x")
