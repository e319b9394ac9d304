"""Macros: LSTM by (1.152) to (1.164) frame by frame, layers, convolutional blocks."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from nnet3 import cn
from nnet3.driver import ComputationCache
from tests.call_count import count_calls
from tests.cn.reference import compare
from tests.seeds import RANDOM


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def by_hand(p: dict[str, np.ndarray], x: np.ndarray, cells: int, diagonal: bool) -> np.ndarray:
    """The chapter's (1.147) to (1.151), with peepholes."""

    def peep(gate: str, c: np.ndarray) -> np.ndarray:
        return p[f"lstm.dc{gate}"] * c if diagonal or gate == "i" else p[f"lstm.Wc{gate}"] @ c

    h = c = np.zeros((cells, 1))
    found = []
    for t in range(x.shape[1]):
        s = {g: p[f"lstm.Wx{g}"] @ x[:, t : t + 1] + p[f"lstm.Wh{g}"] @ h + p[f"lstm.b{g}"] for g in "ifco"}
        i, f = sigmoid(s["i"] + peep("i", c)), sigmoid(s["f"] + peep("f", c))
        c = f * c + i * np.tanh(s["c"])
        h = sigmoid(s["o"] + peep("o", c)) * np.tanh(c)
        found.append(h)
    return np.concatenate(found, 1)


@pytest.mark.parametrize("diagonal", [True, False])
def test_an_lstm_is_the_formula(diagonal) -> None:
    x = cn.input("x", 3)
    nodes = cn.macros.lstm(x, 4, diagonal=diagonal)
    net = cn.Network(cn.square_error(nodes.h, cn.input("y", 4)), {"h": nodes.h}, dtype=torch.float64)
    net.set_parameters({name: RANDOM.normal(size=value.shape) for name, value in net.parameters().items()})
    batch = {n: cn.sequences([RANDOM.normal(size=(r, t)) for t in (6, 3)]) for n, r in (("x", 3), ("y", 4))}
    for value, given in zip(net.evaluate("h", batch), batch["x"], strict=True):
        np.testing.assert_allclose(value, by_hand(net.parameters(), given, 4, diagonal), rtol=1e-10)
    compare(net, batch)


def test_a_blstm_looks_both_ways() -> None:
    x = cn.input("x", 3)
    net = cn.Network(cn.l2_norm(cn.macros.blstm(x, 2)), dtype=torch.float64)
    batch = {"x": cn.sequences([RANDOM.normal(size=(3, t)) for t in (5, 2)])}
    compare(net, batch)
    backward = net.evaluate("blstm", batch)[0][2:]
    changed = {"x": cn.sequences([np.concatenate([a[:, :1] + 1, a[:, 1:]], 1) for a in batch["x"]])}
    np.testing.assert_allclose(net.evaluate("blstm", changed)[0][2:, 1:], backward[:, 1:], rtol=1e-12)


def test_a_dnn_has_named_layers_and_right_gradients() -> None:
    x = cn.input("x", 3)
    o = cn.macros.dnn(x, [5, 4], 2, activation=cn.tanh)
    net = cn.Network(cn.cross_entropy_with_softmax(cn.input("y", 2), o), dtype=torch.float64)
    assert {"dnn.1", "dnn.2", "dnn.output"} <= {node.name for node in net.nodes}
    compare(net, {"x": RANDOM.normal(size=(3, 4)), "y": np.eye(2)[:, [0, 1, 1, 0]]})


@pytest.mark.parametrize("activation", [cn.relu, cn.tanh, cn.sigmoid])
@pytest.mark.parametrize("hidden", [[1], [8, 8]])
def test_a_dnn_on_one_input_learns(activation, hidden) -> None:
    o = cn.macros.dnn(cn.input("x", 1), hidden, 1, activation=activation)
    net = cn.Network(cn.square_error(o, cn.input("y", 1)), dtype=torch.float64)
    gradients = net.gradients({"x": np.array([[-1.0, -0.5, 0.5, 1.0]]), "y": np.array([[1.0, 2.0, 0.5, 3.0]])})
    assert {name for name, gradient in gradients.items() if gradient.any()} == set(net.parameters())


def test_a_cnn_block_of_single_weights_learns() -> None:
    block, _ = cn.macros.cnn_block(cn.input("x", 4), (2, 2, 1), 3, name="block", window=1, activation=cn.tanh)
    net = cn.Network(cn.l2_norm(block))
    assert net.gradients({"x": np.arange(8.0).reshape(4, 2)})["block.K"].any()
    assert net.parameters()["block.K"].all()


def test_dropout_in_layers() -> None:
    o = cn.macros.dnn(cn.input("x", 3), [50], 2, dropout_rate=0.5)
    net = cn.Network(cn.sum_elements(o), {"o": o})
    x = {"x": RANDOM.normal(size=(3, 4))}
    assert (net.evaluate("o", x) == net.evaluate("o", x)).all()
    assert (net.gradients(x)["dnn.output.W"] == 0).sum() < 40
    assert not np.array_equal(net.gradients(x)["dnn.output.W"], net.gradients(x)["dnn.output.W"])


def test_cnn_blocks_follow_each_other() -> None:
    first, image = cn.macros.cnn_block(cn.input("x", 36), (6, 6, 1), 3, name="first")
    assert image == (3, 3, 3)
    second, image = cn.macros.cnn_block(first, image, 2, name="second", pool=None, pad=False)
    assert image == (1, 1, 2)
    net = cn.Network(cn.l2_norm(second), dtype=torch.float64)
    assert set(net.parameters()) == {"first.K", "first.b", "second.K", "second.b"}
    compare(net, {"x": RANDOM.normal(size=(36, 2))})


def test_what_a_cnn_block_costs_does_not_grow_with_the_image() -> None:
    """The first call takes as many nodes, commands and calls of functions for any number of pixels."""

    def first_call(side: int) -> cn.Network:
        block, image = cn.macros.cnn_block(cn.input("x", side * side), (side, side, 1), 3, name="block")
        assert image == (side // 2, side // 2, 3)
        net = cn.Network(cn.sum_elements(block), cache=ComputationCache())
        net.gradients({"x": np.ones((side * side, 2))})
        return net

    small, large = first_call(32), first_call(96)
    assert [node.type for node in large.nodes] == [node.type for node in small.nodes]
    batches = [{"x": np.ones((side * side, 2))} for side in (32, 96)]
    commands = [len(net.program(batch).commands) for net, batch in zip((small, large), batches, strict=True)]
    assert commands[0] == commands[1]
    assert count_calls(first_call, 96) < 1.05 * count_calls(first_call, 32)


def test_a_tensor_layer_is_what_the_reference_computes() -> None:
    x, y = cn.input("x", 3), cn.input("y", 2)
    net = cn.Network(cn.l1_norm(cn.macros.tensor_layer(x, y, 4, name="t")), dtype=torch.float64)
    compare(net, {"x": RANDOM.normal(size=(3, 5)), "y": RANDOM.normal(size=(2, 5))})
