"""Macros: LSTM by (1.152) to (1.164) frame by frame, layers, convolutional blocks."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from nnet3 import cn
from nnet3.engine.driver import ComputationCache
from nnet3.errors import ArgumentError
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


def taken(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: tensor.detach() for name, tensor in module.double().named_parameters()}


@pytest.mark.parametrize("lag", [1, -1])
def test_a_gru_is_that_of_pytorch(lag) -> None:
    net = cn.Network(outputs={"h": cn.macros.gru(cn.input("x", 3), 4, lag=lag).h}, dtype=torch.float64)
    theirs = torch.nn.GRU(3, 4, batch_first=True)
    p = taken(theirs)
    gates = {gate: slice(4 * number, 4 * number + 4) for number, gate in enumerate("rzn")}
    values = {f"gru.Wx{gate}": p["weight_ih_l0"][rows] for gate, rows in gates.items()}
    values |= {f"gru.Wh{gate}": p["weight_hh_l0"][rows] for gate, rows in gates.items()}
    values |= {f"gru.b{gate}": (p["bias_ih_l0"] + p["bias_hh_l0"])[gates[gate], None] for gate in "rz"}
    values |= {"gru.bn": p["bias_ih_l0"][gates["n"], None], "gru.bhn": p["bias_hh_l0"][gates["n"], None]}
    net.set_parameters(values)
    x = RANDOM.normal(size=(3, 6))
    (found,) = net.evaluate("h", {"x": cn.sequences([x])})
    expected = theirs(torch.from_numpy(x.T[None, ::lag].copy()))[0][0].detach().numpy()[::lag].T
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


def test_a_gru_goes_on_where_it_was() -> None:
    nodes = cn.macros.gru(cn.input("x", 3), 4, carry=True)
    net = cn.Network(outputs={"h": nodes.h}, dtype=torch.float64)
    x, zeros = RANDOM.normal(size=(3, 6)), np.zeros((4, 1))
    (whole,) = net.evaluate("h", {"x": cn.sequences([x]), "gru.h0": cn.sequences([zeros])})
    state = {"gru.h0": cn.sequences([whole[:, 2:3]])}
    (rest,) = net.evaluate("h", {"x": cn.sequences([x[:, 3:]]), **state})
    np.testing.assert_allclose(rest, whole[:, 3:], rtol=1e-12)


@pytest.mark.parametrize("heads", [1, 3])
def test_attention_of_several_heads_is_that_of_pytorch(heads) -> None:
    x, memory = cn.input("x", 6), cn.input("m", 5, axis="m")
    net = cn.Network(
        outputs={"o": cn.macros.multi_head_attention(x, memory, memory, heads, name="a")}, dtype=torch.float64
    )
    theirs = torch.nn.MultiheadAttention(6, heads, kdim=5, vdim=5, batch_first=True)
    p = taken(theirs)
    biases = p["in_proj_bias"] + torch.from_numpy(RANDOM.normal(size=18))
    theirs.in_proj_bias.data.copy_(biases)
    values = {f"a.{key}.W": p[f"{key}_proj_weight"] for key in "qkv"} | {"a.o.W": p["out_proj.weight"]}
    values |= {f"a.{key}.b": biases[6 * number : 6 * number + 6, None] for number, key in enumerate("qkv")}
    net.set_parameters({**values, "a.o.b": p["out_proj.bias"][:, None]})
    given, seen = RANDOM.normal(size=(6, 4)), RANDOM.normal(size=(5, 7))
    (found,) = net.evaluate("o", {"x": cn.sequences([given]), "m": cn.sequences([seen])})
    keys = torch.from_numpy(seen.T[None].copy())
    expected = theirs(torch.from_numpy(given.T[None].copy()), keys, keys)[0][0].detach().numpy().T
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def test_batch_normalization_of_channels_is_that_of_pytorch() -> None:
    images = RANDOM.normal(size=(2 * 3 * 4, 5))  # rows x columns x channels of five images
    x = cn.input("x", 24)
    net = cn.Network(cn.square_error(cn.macros.batch_norm(x, 4, name="n"), cn.input("y", 24)), dtype=torch.float64)
    batch = {"x": images, "y": RANDOM.normal(size=images.shape)}
    theirs = torch.nn.BatchNorm2d(4).double()
    given = torch.from_numpy(images.T.reshape(5, 2, 3, 4).transpose(0, 3, 1, 2).copy()).requires_grad_()
    wanted = torch.from_numpy(batch["y"].T.reshape(5, 2, 3, 4).transpose(0, 3, 1, 2).copy())
    (0.5 * (theirs(given) - wanted).square().sum()).backward()
    found = net.gradients(batch, wrt=["x"])["x"]
    factor = found.ravel()[0] / given.grad[0, 0, 0, 0].item()  # of how the criterion is defined
    assert factor == pytest.approx(round(factor), rel=1e-6)
    expected = given.grad.numpy().transpose(0, 2, 3, 1).reshape(5, 24).T
    np.testing.assert_allclose(found, factor * expected, rtol=1e-5, atol=1e-8)


def test_sizes_that_do_not_divide() -> None:
    x = cn.input("x", 6)
    with pytest.raises(ArgumentError, match="the heads of 'a' must divide its 6 rows, got 4"):
        cn.macros.multi_head_attention(x, x, x, 4, name="a")
    with pytest.raises(ArgumentError, match="the channels of 'n' must divide its 6 rows, got 0"):
        cn.macros.batch_norm(x, 0, name="n")
