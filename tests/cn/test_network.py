"""Whole networks against an independent computation by autograd."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch

from nnet3 import cn
from nnet3.errors import ArgumentError, NetworkError
from tests.cn.reference import compare
from tests.cn.small_networks import batch, network, one_hidden_layer, recurrence
from tests.seeds import RANDOM


def test_one_hidden_layer() -> None:
    compare(*one_hidden_layer())


@pytest.mark.parametrize("lag", [1, 2, -1, -3])
@pytest.mark.parametrize("default", [0.0, 0.7])
@pytest.mark.parametrize("lengths", [(4, 2, 3), (3, 3), (1,)])
def test_recurrences_agree_with_the_reference(lag, default, lengths) -> None:
    net = recurrence(lag, default)
    compare(net, {"x": batch(3, lengths), "y": batch(2, lengths)})


@pytest.mark.parametrize("lag", [1, 2, -2])
def test_an_initial_state_is_read_before_the_first_frame(lag) -> None:
    net = recurrence(lag, initial=cn.input("state", 4))
    lengths = (4, 2, 3)
    compare(net, {"x": batch(3, lengths), "y": batch(2, lengths), "state": batch(4, (abs(lag),) * 3)})


def test_forward_and_backward_in_time_and_nested_loops() -> None:
    x = cn.input("x", 3)
    R = cn.parameter("R", (3, 3))
    forward = cn.delay(None, dim=3)
    forward.connect(h := cn.tanh(x + R @ forward, name="h"))
    backward = cn.delay(None, lag=-1, dim=3)
    backward.connect(g := cn.sigmoid(h + R @ backward, name="g"))
    outer, inner = cn.delay(None, lag=2, dim=3), cn.delay(None, lag=1, default=0.2, dim=3)
    inner.connect(a := cn.tanh(cn.row_stack(cn.row_slice(g, 1, 2), cn.row_slice(outer, 0, 1)) - inner, name="a"))
    outer.connect(b := cn.element_times(a, g, name="b"))
    J = cn.sum_elements(b) + cn.l2_norm(R) * 0.1
    compare(network(J), {"x": batch(3)})


def test_delays_of_delays_and_of_inputs() -> None:
    x = cn.input("x", 2)
    twice = cn.delay(cn.delay(x, 1, 0.5), -2, 0.25)
    J = cn.sum_elements(cn.tanh(cn.diag_times(cn.parameter("d", (2, 1), 0.3), twice * x) + cn.delay(x, -1)))
    compare(network(J, {"twice": twice}), {"x": batch(2)})


def test_a_node_that_is_an_operand_twice() -> None:
    x = cn.input("x", 3)
    h = cn.parameter("W", (3, 3)) @ x
    J = cn.sum_elements((h + h) * (h - cn.tanh(h)) - h * h)
    compare(network(J), {"x": RANDOM.normal(size=(3, 4))})


def test_shared_parameters_and_sharing_inside_sums() -> None:
    x = cn.input("x", 3)
    W = cn.parameter("W", (3, 3))
    h = cn.tanh(W @ x)
    J = cn.square_error(W @ h + h, h * cn.sigmoid(W @ h))
    compare(network(J), {"x": RANDOM.normal(size=(3, 4))})


def test_time_stamps_with_other_samples() -> None:
    net = recurrence()
    for lengths in ((4, 2), (3,), (4, 2)):
        inputs = {"x": batch(3, lengths), "y": batch(2, lengths)}
        compare(net, inputs)


def test_a_profile_says_where_the_time_goes() -> None:
    net, inputs = one_hidden_layer()
    net.backward(inputs)
    before = {name: tensor.grad.clone() for name, tensor in net.tensors().items() if tensor.grad is not None}
    report = net.profile(inputs)
    for name, tensor in net.tensors().items():
        np.testing.assert_array_equal(tensor.grad, before[name])  # the program is that of a gradient
    assert {"Propagate", "Backprop"} <= {row.keys[0] for row in report.rows(("kind",))}
    assert "plus1" in {row.keys[0] for row in report.rows(("node",))}
    lines = str(report).splitlines()
    assert lines[0].split() == ["kind", "type", "calls", "ms", "%", "us/call", "MB", "GB/s"]
    assert ["Propagate", "Sigmoid", "1"] in [line.split()[:3] for line in lines]
    assert lines[-1].startswith("all ")


@pytest.mark.parametrize(
    "ask",
    [
        lambda net, batch: net.evaluate("h", batch),
        lambda net, batch: net.evaluate(["h"], batch),
        lambda net, batch: net.gradients(batch),
        lambda net, batch: net.criterion(batch, training=True),
        lambda net, batch: cn.AsynchronousEvaluator(net).evaluate("h", batch),
    ],
)
def test_a_matrix_that_meets_a_delay_is_warned_of_once(ask) -> None:
    net, batch = recurrence(), {"x": np.ones((3, 4)), "y": np.ones((2, 4))}
    with pytest.warns(UserWarning, match=r"'x' is a matrix, .* but 'd' \(delay\) .* cn\.sequences\(\[x\]\)") as caught:
        ask(net, batch)
    assert [warning.filename for warning in caught] == [__file__]  # where the user asks
    ask(net, batch)
    net.gradients({name: value[:, :2] for name, value in batch.items()})


def test_samples_that_are_warned_of() -> None:
    x = cn.input("x", 3)
    tdnn = cn.component("TdnnComponent input-dim=3 output-dim=2 time-offsets=-1,0", x, name="tdnn")
    norm = cn.component("NormalizeComponent dim=3", x)
    net = network(outputs={"tdnn": tdnn, "norm": norm})
    X = np.ones((3, 4))
    net.evaluate("norm", {"x": X})
    net.evaluate("tdnn", {"x": X[:, :1]})
    net.evaluate("tdnn", {"x": cn.sequences([X])})
    with pytest.warns(UserWarning, match=r"'tdnn' \(component\) looks at other frames"):
        net.evaluate("tdnn", {"x": X})
    streams = recurrence(initial=cn.input("state", 4))  # a frame of each stream, and its state
    streams.gradients({"x": X, "y": np.ones((2, 4)), "state": np.ones((4, 4))})


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float8_e4m3fn, torch.int32, torch.complex64, torch.bool])
def test_types_of_numbers_that_arrays_have_not(dtype) -> None:
    net, inputs = one_hidden_layer()
    expected = net.evaluate("posterior", inputs)
    for call in (net.to, lambda dtype: cn.Network(net.find("J"), dtype=dtype)):
        with pytest.raises(ArgumentError, match=f"torch.float16, float32 or float64, .* got {dtype}"):
            call(dtype)
    np.testing.assert_array_equal(net.evaluate("posterior", inputs), expected)  # nothing was changed


def test_networks_are_saved_not_pickled() -> None:
    net, _ = one_hidden_layer()
    with pytest.raises(NetworkError, match=r"a network is not pickled: cn\.save writes it to a file"):
        pickle.dumps(net)
