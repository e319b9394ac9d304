"""A network has one type of numbers: parameters are rounded when a network takes them, constants each time anew."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

import nnet3
from nnet3 import cn
from tests.effort import draws
from tests.seeds import RANDOM

X = {"x": np.array([[1.0, -1.0, 2.0], [0.5, 3.0, 0.1]])}
NUMBERS = np.array([[0.1, 1 / 3], [0.7, -1.1]])
SINGLE, DOUBLE = torch.float32, torch.float64


def nodes() -> cn.Node:
    """A criterion of a parameter, a component, and of constants that no binary number is."""
    h = cn.component("PerElementScaleComponent dim=2", cn.parameter("W", (2, 2), NUMBERS) @ cn.input("x", 2), name="s")
    return cn.sum_elements(0.1 * cn.tanh(cn.constant(NUMBERS, name="c") @ h), name="J")


def constants(network: cn.Network) -> list[np.ndarray]:
    return [node.value for node in network.stored if not node.trainable]


def reread(network: cn.Network) -> cn.Network:
    with TemporaryDirectory() as folder:
        cn.save(network, Path(folder) / "net.cn")
        return cn.load(Path(folder) / "net.cn")


def cloned(network: cn.Network) -> cn.Network:
    return cn.Network(cn.clone(network.find("J")))


STEPS = {
    "single": lambda network: network.to(SINGLE),
    "double": lambda network: network.to(DOUBLE),
    "copy": lambda network: network.copy(),
    "clone": cloned,
    "shared": lambda network: cn.Network(cn.squared_norm(network.find("W") - 0.1) + network.find("J")),
    "replace": lambda network: network.replace({"c": cn.constant(NUMBERS, name="c")}),
    "file": reread,
}


@settings(max_examples=draws(12), deadline=None)
@given(st.sampled_from((None, SINGLE, DOUBLE)), st.lists(st.sampled_from(sorted(STEPS)), max_size=6))
def test_sequences_of_steps(dtype, steps) -> None:
    """Whatever came before, the numbers are those of a network made of the type at once."""
    network, is_double, was_single = cn.Network(nodes(), dtype=dtype), dtype == DOUBLE, dtype != DOUBLE
    for step in steps:
        if step == "shared" and "J" not in network.names.values():
            continue
        network = STEPS[step](network)
        network = cn.Network(network.find("J"))
        is_double = step == "double" or (is_double and step != "single")
        was_single |= not is_double
        assert network.dtype == (DOUBLE if is_double else SINGLE)
        anew = cn.Network(nodes(), dtype=network.dtype)
        for mine, theirs in zip(constants(network), constants(anew), strict=True):
            np.testing.assert_array_equal(mine, theirs, strict=True)
        wanted = NUMBERS.astype(np.float32) if was_single else NUMBERS
        np.testing.assert_array_equal(network.find("W").value, wanted.astype(anew.find("W").value.dtype), strict=True)
        anew.set_parameters(network.parameters())
        assert network.criterion(X) == anew.criterion(X)


def test_parameters_made_before_a_network_keep_their_digits() -> None:
    W = cn.parameter("W", (2, 2), NUMBERS)
    net = cn.Network(cn.sum_elements(0.1 * (W @ cn.input("x", 2))), dtype=DOUBLE)
    assert net.criterion(X) == pytest.approx(0.1 * (NUMBERS @ X["x"]).sum(), rel=1e-15)
    np.testing.assert_array_equal(W.value, NUMBERS)


def test_a_constant_that_somebody_writes_keeps_what_was_written() -> None:
    net = cn.Network(nodes())
    net.set_parameters({"c": 2 * NUMBERS})
    np.testing.assert_array_equal(net.to(DOUBLE).find("c").value, 2 * NUMBERS)
    net.find("c").memory.mul_(0.5)
    net.to(SINGLE)
    np.testing.assert_array_equal(net.to(DOUBLE).find("c").value, NUMBERS.astype(np.float32))


def test_the_bridge_keeps_the_type() -> None:
    x = cn.input("x", 2)
    h = cn.component("PerElementScaleComponent dim=2", x, name="s")
    y = 0.1 * (cn.parameter("W", (3, 2), NUMBERS[[0, 1, 0]]) @ h) + cn.parameter("b", (3, 1), NUMBERS[[0, 1, 0], :1])
    net = cn.Network(outputs={"y": y}, dtype=DOUBLE)
    nnet = net.to_nnet()
    assert {t.dtype for each in nnet.components.values() for t in each.parameters().values()} == {DOUBLE}
    again = cn.from_nnet(nnet)
    np.testing.assert_array_equal(again.evaluate("y", X), net.evaluate("y", X), strict=True)
    assert cn.from_nnet(net.to(SINGLE).to_nnet()).dtype == SINGLE


def without_parameters() -> cn.Node:
    return cn.tanh(cn.input("x", 2), name="h")


def test_nodes_without_parameters_have_the_type_of_the_network_that_has_them() -> None:
    h = without_parameters()
    cn.Network(cn.squared_norm(cn.parameter("W", (2, 2)) @ h), {"h": h}, dtype=DOUBLE)
    above = cn.Network(outputs=[cn.parameter("V", (3, 2)) @ h])
    alone, twin = cn.Network(outputs={"h": h}), cn.Network(outputs=[cn.clone(h)])
    assert {above.dtype, alone.dtype, twin.dtype, alone.copy().dtype, reread(alone).dtype} == {DOUBLE}
    np.testing.assert_allclose(alone.evaluate("h", X), np.tanh(X["x"]), rtol=1e-15, strict=True)
    assert cn.Network(outputs=[cn.sigmoid(h.operands[0])]).dtype == SINGLE, "inputs are of any type"
    assert cn.Network(outputs=[h], dtype=SINGLE).dtype == SINGLE
    assert alone.dtype == SINGLE


def test_a_network_without_parameters_follows_one_that_shares_its_nodes() -> None:
    h = without_parameters()
    alone, other = cn.Network(outputs={"h": h}), cn.Network(cn.squared_norm(cn.parameter("W", (2, 2)) @ h))
    other.to(DOUBLE)
    np.testing.assert_allclose(alone.evaluate("h", X), np.tanh(X["x"]), rtol=1e-15, strict=True)
    alone.to(SINGLE)
    assert alone.evaluate("h", X).dtype == np.float32
    assert other.dtype == DOUBLE, "the type of parameters decides"


@pytest.mark.parametrize("type_name", ["TanhComponent dim=2", "FixedScaleComponent dim=2", "BatchNormComponent dim=2"])
def test_the_bridge_keeps_the_type_of_networks_without_parameters(type_name) -> None:
    nnet = nnet3.Nnet.from_config(
        f"input-node name=x dim=2\ncomponent name=t type={type_name}\ncomponent-node name=t component=t input=x\n"
        "output-node name=y input=t"
    )
    nnet.set_test_mode(False)
    for dtype in (SINGLE, DOUBLE):
        made = cn.from_nnet(nnet.to(dtype).copy())
        assert (nnet.dtype, made.dtype, made.to_nnet().dtype) == (dtype, dtype, dtype)


def test_stages_have_the_type() -> None:
    mean = cn.sequence.mean(0.1 * cn.tanh(cn.input("x", 2)))
    net = cn.Network(cn.squared_norm(mean - 0.3), {"mean": mean}, dtype=DOUBLE)
    x = [RANDOM.normal(size=(2, 4)), RANDOM.normal(size=(2, 2))]
    expected = np.stack([0.1 * np.tanh(each).mean(1) for each in x], 1)
    np.testing.assert_allclose(net.evaluate("mean", {"x": cn.sequences(x)}), expected, rtol=1e-15)
    assert net.criterion({"x": cn.sequences(x)}) == pytest.approx(((expected - 0.3) ** 2).sum(), rel=1e-14)


def test_onnx_files_are_float32(tmp_path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    net = cn.Network(nodes(), dtype=DOUBLE)
    net.export_onnx(tmp_path / "net.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "net.onnx"))
    assert {each.type for each in (*session.get_inputs(), *session.get_outputs())} == {"tensor(float)"}
