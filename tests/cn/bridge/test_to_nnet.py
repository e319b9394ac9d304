"""Computational networks as nnet3 networks, and back."""

from __future__ import annotations

import numpy as np
import pytest
from reference import columns

import nnet3
from nnet3 import cn
from nnet3.errors import NetworkError
from seeds import RANDOM


def run(nnet: nnet3.Nnet, x: np.ndarray) -> np.ndarray:
    """The output for one sequence (D, T), all frames."""
    indexes = np.array([(0, t, 0) for t in range(x.shape[1])])
    request = nnet3.ComputationRequest(
        inputs=[nnet3.IoSpecification("x", indexes)], outputs=[nnet3.IoSpecification("output", indexes)]
    )
    computer = nnet3.NnetComputer(nnet3.compile(nnet, request), nnet)
    computer.accept_input("x", x.T)
    computer.run()
    return computer.get_output("output").numpy().T


def random_values(net: cn.Network) -> cn.Network:
    net.set_parameters({n: RANDOM.normal(size=v.shape) for n, v in net.parameters().items() if v.size > 1})
    return net


def networks() -> dict[str, cn.Network]:
    x = cn.input("x", 3)
    dnn = cn.log_softmax(cn.macros.dnn(x, [5, 4], 2, activation=cn.relu))
    d = cn.delay(None, dim=4, name="d")
    h = d.connect(cn.tanh(cn.plus(cn.parameter("W", (4, 3)) @ x, cn.parameter("R", (4, 4)) @ d), name="h"))
    spliced = cn.row_stack(cn.delay(x, 2), x, cn.delay(cn.row_slice(cn.row_stack(cn.delay(x, 1), x), 0, 3), -1))
    sliced = cn.row_slice(cn.parameter("W2", (4, 9)) @ spliced, 1, 2) + cn.scale(0.5, cn.row_slice(x, 0, 2))
    return {
        "dnn": cn.Network(outputs={"output": dnn}),
        "recurrence": cn.Network(outputs={"output": cn.parameter("V", (2, 4)) @ h}),
        "slices": cn.Network(outputs={"output": sliced}),
        "component": cn.Network(outputs={"output": cn.component("NormalizeComponent dim=4", cn.copy(h) * h)}),
        "lstm": cn.Network(outputs={"output": cn.macros.lstm(cn.input("x", 3), 4).h}),
        "blstm": cn.Network(outputs={"output": cn.macros.blstm(cn.input("x", 3), 4)}),
    }


@pytest.mark.parametrize("name", ["dnn", "recurrence", "slices", "component", "lstm", "blstm"])
def test_there_and_back(name) -> None:
    net = random_values(networks()[name])
    value = RANDOM.normal(size=(3, 7)).astype(np.float32)
    nnet = net.to_nnet()
    expected = columns(net.evaluate("output", {"x": cn.sequences([value])}))
    np.testing.assert_allclose(run(nnet, value), expected, rtol=1e-4, atol=1e-5)
    again = cn.from_nnet(nnet)
    np.testing.assert_allclose(
        columns(again.evaluate("output", {"x": cn.sequences([value])})), expected, rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda x: cn.cos(x, x), r"'\w+' \(cos\) is an operation of computational networks"),
        (lambda x: cn.delay(x, default=0.5), "has default 0.5, where IfDefined has 0"),
        (lambda x: cn.delay(x, initial=cn.input("state", 3)), "has an initial state"),
        (lambda x: cn.delay(cn.delay(x)), "a value of delays alone"),
        (lambda x: x + cn.parameter("b", (1, 1)), "repeats an operand|belongs to no sample"),
        (
            lambda x: cn.tanh(cn.parameter("A", (2, 2)) @ cn.parameter("B", (2, 3))) @ x,
            "belongs to no sample|no parameter",
        ),
    ],
)
def test_what_has_no_counterpart(make, says) -> None:
    with pytest.raises(NetworkError, match=says):
        cn.Network(outputs={"output": make(cn.input("x", 3))}).to_nnet()
