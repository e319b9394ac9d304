"""NnetComputer driven wrongly: what the errors say."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from nnet3.engine.runtime import NnetComputer
from nnet3.errors import ExecutionError
from tests.runtime.programs import Program
from tests.runtime.scale_program import FEATURES, forward, scale_program
from tests.runtime.toy_kernels import Scale, net

BAD_CALLS: dict[str, tuple[Callable[[NnetComputer], Any], str]] = {
    "rows": (
        lambda c: c.accept_input("input", np.zeros((3, 3))),
        r"input 'input': expected a matrix of \(rows, columns\) \(2, 3\), got \(3, 3\)",
    ),
    "nothing": (lambda c: c.accept_input("input", None), "a tensor or an array, got None"),  # type: ignore[arg-type]
    "list": (lambda c: c.accept_input("input", [[1.0]]), "a tensor or an array, got list"),  # type: ignore[arg-type]
    "vector": (lambda c: c.accept_input("input", torch.zeros(6)), r"\(2, 3\), got \(6,\)"),
    "complex": (
        lambda c: c.accept_input("input", torch.zeros(2, 3, dtype=torch.complex64)),
        "input 'input': expected floats or integers, got torch.complex64",
    ),
    "complex array": (lambda c: c.accept_input("input", np.zeros((2, 3), complex)), "integers, got complex128"),
    "truth values": (lambda c: c.accept_input("input", torch.zeros(2, 3).bool()), "integers, got torch.bool"),
    "derivative too early": (
        lambda c: c.accept_input("output", FEATURES),
        r"'output' is not for the next run, which takes 'input'; call run\(\) or reset\(\) first",
    ),
    "derivative of wrong size": (
        lambda c: (forward(c), c.accept_input("output", np.zeros((1, 3)))),
        r"derivative of output 'output': expected .* \(2, 3\), got \(1, 3\)",
    ),
    "input too late": (
        lambda c: (forward(c), c.accept_input("input", FEATURES)),
        "'input' is not for the next run, which takes 'output'",
    ),
    "misspelt input": (lambda c: c.accept_input("inptu", FEATURES), "no input 'inptu'; did you mean 'input'?"),
    "unknown input": (lambda c: c.accept_input("xyz", FEATURES), "no input 'xyz'; there is: 'input'"),
    "no input": (lambda c: c.run(), r"missing before run\(\): 'input'; give them with accept_input\(\)"),
    "no derivative": (lambda c: (forward(c), c.run()), r"missing before run\(\): 'output'"),
    "past the end": (
        lambda c: (forward(c), c.accept_input("output", FEATURES), c.run(), c.run()),
        r"the computation has ended: accept the next inputs or call reset\(\)",
    ),
    "output too early": (lambda c: c.get_output("output"), r"'output' has not been computed yet: call run\(\) first"),
    "derivative before backward": (lambda c: (forward(c), c.get_output("input")), "'input' has not been computed yet"),
    "stale output": (
        lambda c: (
            (forward(c), c.accept_input("output", FEATURES), c.run(), c.accept_input("input", FEATURES))
            and c.get_output("output")
        ),
        "'output' has not been computed yet",
    ),
    "misspelt output": (lambda c: c.get_output("outptu"), "no output 'outptu'; did you mean 'output'?"),
    "unknown output": (lambda c: c.get_output("xyz"), "no output 'xyz'; there is: "),
}


@pytest.mark.parametrize(("call", "message"), BAD_CALLS.values(), ids=BAD_CALLS.keys())
def test_wrong_use_is_refused(call: Callable[[NnetComputer], Any], message: str) -> None:
    computer = NnetComputer(scale_program(), net(scale=Scale()), net(scale=Scale()))
    with pytest.raises(ExecutionError, match=message):
        call(computer)


def test_derivatives_that_were_not_requested() -> None:
    program = Program()
    program.output("output", program.input("input", 2, 3))
    computer = NnetComputer(program.computation, net())
    with pytest.raises(ExecutionError, match="no derivative of output 'output' was declared when"):
        computer.accept_input("output", FEATURES)
    forward(computer)
    with pytest.raises(ExecutionError, match="no derivative of input 'input' was requested when"):
        computer.get_output("input")


def test_numbers_beyond_float32() -> None:
    computer = NnetComputer(scale_program(), net(scale=Scale(2.0)), net(scale=Scale()), check_finite=False)
    computer.accept_input("input", np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 1e300]]))
    computer.run()
    assert computer.get_output("output").tolist() == [[2.0, 4.0, 6.0], [8.0, 10.0, float("inf")]]


def test_what_is_not_a_network() -> None:
    with pytest.raises(ExecutionError, match="expected a network, got str"):
        NnetComputer(scale_program(), "net.raw")  # type: ignore[arg-type]
    with pytest.raises(ExecutionError, match=r"expected a network, got SimpleNamespace: give its \.nnet"):
        NnetComputer(scale_program(), SimpleNamespace(nnet=net(scale=Scale())))  # type: ignore[arg-type]


@pytest.mark.parametrize("side", ["input_dim", "output_dim"])
def test_a_network_of_other_sizes(side: str) -> None:
    narrow = Scale()
    setattr(narrow, side, 2)
    message = f"component 'scale' has {side.replace('_', '-')} 2 in a given network, but 3 in the one"
    for network, to_update in ((narrow, Scale()), (Scale(), narrow)):
        with pytest.raises(ExecutionError, match=message):
            NnetComputer(scale_program(), net(scale=network), net(scale=to_update))


def test_an_error_in_a_run_resets_the_computer() -> None:
    nnet = net(scale=Scale(2.0))
    computer = NnetComputer(scale_program(), nnet, net(scale=Scale()))
    nnet.components["scale"].factor.resize_(2)
    with pytest.raises(RuntimeError):
        forward(computer)
    nnet.components["scale"].factor.resize_(1)
    np.testing.assert_array_equal(forward(computer), 2 * FEATURES)


def test_an_error_in_a_backward_run_resets_the_computer_too() -> None:
    nnet = net(scale=Scale(2.0))
    computer = NnetComputer(scale_program(), nnet, net(scale=Scale()))
    forward(computer)
    nnet.components["scale"].factor.resize_(2)
    computer.accept_input("output", FEATURES)
    with pytest.raises(RuntimeError):
        computer.run()
    nnet.components["scale"].factor.resize_(1)
    with pytest.raises(ExecutionError, match="'output' has not been computed yet"):
        computer.get_output("output")
    with pytest.raises(ExecutionError, match="missing before run"):
        computer.run()
    np.testing.assert_array_equal(forward(computer), 2 * FEATURES)
