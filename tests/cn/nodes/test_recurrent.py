"""A recurrent layer as one node: the LSTM of PyTorch, in both directions, on sequences of any lengths."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from nnet3 import cn
from nnet3.base.native import cells
from nnet3.base.native.fastest import Fastest
from nnet3.cn.nodes import recurrent
from nnet3.errors import ShapeError
from tests.native.native_code import needs_native_code
from tests.seeds import RANDOM

X = cn.input("x", 3)


def network(reverse: bool = False, dtype: torch.dtype = torch.float64, dim: int = 4) -> cn.Network:
    h = cn.macros.fast_lstm(X, dim, name="h", reverse=reverse)
    net = cn.Network(cn.squared_norm(h, name="J"), {"y": h}, dtype=dtype)
    net.set_parameters({name: RANDOM.normal(size=value.shape) for name, value in net.parameters().items()})
    return net


def pytorch(net: cn.Network) -> torch.nn.LSTM:
    """The same layer; both of its biases are there, one of them zero."""
    module = torch.nn.LSTM(3, 4).double()
    p = {name: torch.from_numpy(value) for name, value in net.parameters().items()}
    state = {"weight_ih_l0": p["h.W"], "weight_hh_l0": p["h.R"], "bias_ih_l0": p["h.b"][:, 0]}
    module.load_state_dict(state | {"bias_hh_l0": torch.zeros(16)})
    return module


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("lengths", [(5, 5), (2, 4, 1), (3,), (0, 2)])
def test_values_are_pytorchs(lengths: tuple[int, ...], reverse: bool) -> None:
    net = network(reverse)
    module, arrays = pytorch(net), [RANDOM.normal(size=(3, length)) for length in lengths]
    for value, array in zip(net.evaluate("y", {"x": cn.sequences(arrays)}), arrays, strict=True):
        assert value.shape == (4, array.shape[1])
        if array.size:
            given = torch.from_numpy((array[:, ::-1] if reverse else array).T.copy())
            expected = module(given)[0].detach().numpy().T
            np.testing.assert_allclose(value, expected[:, ::-1] if reverse else expected, rtol=1e-10)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("lengths", [(4, 4), (2, 4, 1)])
def test_gradients(lengths: tuple[int, ...], reverse: bool, capsys: pytest.CaptureFixture[str]) -> None:
    batch = {"x": cn.sequences([RANDOM.normal(size=(3, length)) for length in lengths])}
    assert cn.check_gradients(network(reverse), batch).worst < 1e-5


@needs_native_code
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("lengths", [(4, 4, 4), (2, 7, 1, 0, 2), (3,), (1, 1)])
@pytest.mark.parametrize("dim", [1, 4, 40])
def test_native_code_in_both_directions(lengths, reverse: bool, dim: int, monkeypatch: pytest.MonkeyPatch) -> None:
    found = cells.fastest()
    monkeypatch.setattr(cells, "fastest", lambda: Fastest("panels", found.changing))
    exact, own = network(reverse, dim=dim), network(reverse, torch.float32, dim=dim)
    own.set_parameters(exact.parameters())
    x, calls, run_layer = [RANDOM.normal(size=(3, length)) for length in lengths], [], cells._run_layer
    monkeypatch.setattr(cells, "_run_layer", lambda name, *given: calls.append(name) or run_layer(name, *given))
    batch = {"x": cn.sequences(x)}
    for value, expected in zip(own.evaluate("y", batch), exact.evaluate("y", batch), strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-4, atol=1e-5)
    gradients, expected_gradients = own.gradients(batch, wrt=["x"]), exact.gradients(batch, wrt=["x"])
    for name, expected in expected_gradients.items():
        of_samples = zip(gradients[name], expected, strict=True)
        for gradient, each in of_samples if name == "x" else [(gradients[name], expected)]:
            np.testing.assert_allclose(gradient, each, rtol=1e-4, atol=1e-4)
    assert len(expected_gradients) == 4
    assert calls == ["nnet3_lstm_layer", "nnet3_lstm_layer", "nnet3_lstm_layer_backward"]


@needs_native_code
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_frames_of_native_code_whatever_tensors_are_made_by_default(device: str) -> None:
    weights, values = torch.randn(8, 2), torch.randn(2, 1, 12)
    cell = torch.nn.LSTMCell(1, 2)
    with torch.no_grad():
        cell.weight_hh.copy_(weights)
        of_input = values[0, :, :8] - cell.bias_hh - cell.bias_ih  # of an input of 0
        cell.bias_ih.add_(of_input[0])
        h, c = cell(torch.zeros(1, 1), (values[0, :, 10:], values[0, :, 8:10]))
    with torch.device(device):
        cells.lstm_layer(values, np.ones(1, np.int64), weights)
    # PyTorch has the gates in the order I, F, Cp, O, too
    torch.testing.assert_close(values[1, :, 8:], torch.cat([c, h], 1), rtol=1e-5, atol=1e-6)


@needs_native_code
@pytest.mark.parametrize(("lengths", "is_native"), [((9, 1, 1, 1), True), ((30, *[1] * 9), False)])
def test_one_long_sequence_of_many_takes_no_memory_for_all(
    lengths: tuple[int, ...], is_native: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, rooms, room = cells.fastest(), list[int](), recurrent._room
    monkeypatch.setattr(cells, "fastest", lambda: Fastest("panels", found.changing))
    monkeypatch.setattr(recurrent, "_room", lambda x, *sizes: rooms.append(len(x)) or room(x, *sizes))
    exact, own = network(), network(dtype=torch.float32)
    own.set_parameters(exact.parameters())
    batch = {"x": cn.sequences([RANDOM.normal(size=(3, length)) for length in lengths])}
    for value, expected in zip(own.evaluate("y", batch), exact.evaluate("y", batch), strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-4, atol=1e-5)
    assert rooms == [sum(lengths)] * is_native


@needs_native_code
@pytest.mark.parametrize(("rows", "threads"), [(7, 1), (8, 5)])
def test_threads_share_the_products_of_large_frames_alone(
    rows: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = list[int]()
    functions = SimpleNamespace(nnet3_lstm_layer=lambda *arguments: given.append(arguments[-1]))
    monkeypatch.setattr(cells, "library", lambda: functions)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 5)
    cells.lstm_layer(torch.zeros(2, rows, 6 * 256), np.full(1, rows), torch.zeros(4 * 256, 256))
    assert given == [threads]


def test_what_pytorch_learns_on_equal_lengths() -> None:
    net = network()
    module, arrays = pytorch(net), RANDOM.normal(size=(2, 3, 5))
    module(torch.from_numpy(arrays.transpose(2, 0, 1).copy()))[0].square().sum().backward()
    gradients = net.gradients({"x": cn.sequences(arrays)})
    np.testing.assert_allclose(gradients["h.W"], module.weight_ih_l0.grad, rtol=1e-8)
    np.testing.assert_allclose(gradients["h.R"], module.weight_hh_l0.grad, rtol=1e-8)
    np.testing.assert_allclose(gradients["h.b"][:, 0], module.bias_ih_l0.grad, rtol=1e-8)


@pytest.mark.filterwarnings("ignore:.*is a matrix, whose columns:UserWarning")
def test_samples_that_are_no_sequences_are_sequences_of_one_frame() -> None:
    net, array = network(), RANDOM.normal(size=(3, 4))
    alone = net.evaluate("y", {"x": cn.sequences(array.T[:, :, None])})
    np.testing.assert_allclose(net.evaluate("y", {"x": array}), np.concatenate(alone, axis=1), rtol=1e-12)


def test_saved_and_among_other_nodes(tmp_path) -> None:
    h = cn.macros.fast_lstm(cn.relu(cn.macros.affine(X, 4, name="below")), 3, name="h", reverse=True)
    scores = cn.macros.affine(h, 2, name="scores")
    net = cn.Network(cn.cross_entropy_with_softmax(cn.input("y", classes=2), scores), {"scores": scores})
    batch = {"x": cn.sequences([RANDOM.normal(size=(3, n)) for n in (4, 2)]), "y": cn.sequences([[0, 1, 1, 0], [1, 1]])}
    cn.train(net, [batch], learning_rate=0.1, epochs=2)
    cn.save(net, tmp_path / "net.cn")
    assert cn.load(tmp_path / "net.cn").criterion(batch) == pytest.approx(net.criterion(batch), rel=1e-6)


def test_operands_that_do_not_fit() -> None:
    W, R, b = cn.parameter("W", (8, 3)), cn.parameter("R", (8, 2)), cn.parameter("b", (8, 1))
    assert cn.lstm_layer(X, W, R, b).shape == cn.Shape(2)
    for operands in ((X, R, W, b), (X, W, R, W), (cn.input("z", 4), W, R, b)):
        with pytest.raises(ShapeError, match="lstm_layer needs X: D x S, W: 4C x D, R: 4C x C and b: 4C x 1"):
            cn.lstm_layer(*operands)
