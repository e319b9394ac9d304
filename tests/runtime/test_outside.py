"""Memory from outside: parameters and gradients where they lie, inputs and outputs in fixed places."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from nnet3.engine.ir import commands as cmd
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.kernel import KernelInfo
from nnet3.engine.runtime import NnetComputer
from nnet3.errors import ExecutionError
from tests.runtime.programs import PRODUCT, Program
from tests.runtime.scale_program import FEATURES, forward, scale_program
from tests.runtime.toy_kernels import Product, Scale, net


def product_program() -> NnetComputation:
    """output = input * W with W from outside, and backward: the gradient of W is added to `W.gradient`."""
    program = Program()
    computation = program.computation
    kernel = program.kernel(PRODUCT)
    weights, gradient = computation.new_outside("W", 2, 3, False), computation.new_outside("W.gradient", 2, 3, True)
    value, output = program.input("input", 2, 3), program.matrix(2, 3)
    program.add(cmd.Propagate(kernel, "product", (value, weights), output)).output("output", output)
    deriv, to_weights = program.matrix(2, 3), program.matrix(2, 3)
    program.add(
        cmd.SegmentMarker(),
        cmd.AcceptInput(deriv, "output"),
        cmd.Backprop(kernel, "product", (value, weights), 0, deriv, (0, to_weights), (0, 0), update=False),
        cmd.MatrixAdd(gradient, to_weights),
    )
    return computation


def test_the_type_of_numbers_is_that_of_bound_memory() -> None:
    computation = NnetComputation()
    computation.new_outside("W", 1, 2, False)
    outside = {"W": torch.zeros(1, 2, dtype=torch.float64)}
    assert NnetComputer(computation, net(), outside=outside).dtype == torch.float64


@pytest.mark.parametrize("layout", ["plain", "columns of wider", "transposed", "parameter"])
def test_parameters_and_gradients_where_they_lie(layout: str) -> None:
    weights, gradient = torch.arange(6.0).view(2, 3), torch.ones(2, 3)
    if layout == "columns of wider":
        weights, gradient = torch.arange(20.0).view(4, 5)[1:3, 1:4], torch.zeros(3, 9)[:2, ::3].fill_(1.0)
    elif layout == "transposed":
        weights, gradient = torch.arange(6.0).view(3, 2).t(), torch.ones(3, 2).t()
    elif layout == "parameter":
        weights = torch.nn.Parameter(weights)
    computer = NnetComputer(product_program(), net(product=Product()), outside={"W": weights, "W.gradient": gradient})
    for count in (1, 2):
        assert torch.equal(forward(computer), torch.from_numpy(FEATURES).float() * weights.detach())
        computer.accept_input("output", np.full((2, 3), 2.0))
        computer.run()
        np.testing.assert_array_equal(gradient, 1 + count * 2 * FEATURES)
    with torch.no_grad():
        weights.fill_(7.0)
    np.testing.assert_array_equal(forward(computer), 7 * FEATURES)


@pytest.mark.parametrize("transposed", [False, True])
def test_rows_of_outside_memory(transposed: bool) -> None:
    """Rows by index, regular and irregular, from memory with other strides and into it, mixed with the arena."""
    table = torch.arange(40.0).view(10, 4)
    memory = table.t().contiguous().t() if transposed else table.clone()
    program = Program()
    computation = program.computation
    outside = computation.new_outside("table", 10, 4, True)
    value = program.input("input", 4, 4)
    part = program.part(outside, 0, 10, 1, 2)
    regular, shuffled, mixed = (program.matrix(4, cols) for cols in (4, 2, 4))
    program.add(
        cmd.CopyRows(regular, outside, program.index_table([1, 3, 5, 7])),
        cmd.CopyRows(shuffled, part, program.index_table([9, 2, 2, 5])),
        cmd.CopyRowsMulti(mixed, program.multi_table([(outside, 5), (value, 1), (outside, 8), (value, 2)])),
        cmd.AddToRowsMulti(value, program.multi_table([(outside, 3), (outside, 0), (-1, -1), (outside, 9)]), 2.0),
        cmd.CopyRows(value, outside, program.index_table([0, 3, 9, -1])),
    )
    for number, matrix in enumerate((regular, shuffled, mixed, value)):
        program.output(f"out{number}", matrix)
    features = np.arange(16.0).reshape(4, 4)
    expected = table.numpy()
    computer = NnetComputer(computation, net(), outside={"table": memory}, dtype=torch.float32)
    computer.accept_input("input", features)
    computer.run()
    np.testing.assert_array_equal(computer.get_output("out0"), expected[[1, 3, 5, 7]])
    np.testing.assert_array_equal(computer.get_output("out1"), expected[[9, 2, 2, 5], 1:3])
    np.testing.assert_array_equal(
        computer.get_output("out2"), np.stack([expected[5], features[1], expected[8], features[2]])
    )
    expected = expected.copy()
    for row, source in ((3, 0), (0, 1), (9, 3)):
        expected[row] += 2 * features[source]
    np.testing.assert_array_equal(memory, expected)
    np.testing.assert_array_equal(computer.get_output("out3"), [*expected[[0, 3, 9]], np.zeros(4)])


def test_inputs_outputs_and_derivatives_in_fixed_places() -> None:
    names = ["input", "output", "output.deriv", "input.deriv"]
    places = {name: torch.zeros(2, 3, dtype=torch.float64) for name in names}
    computer = NnetComputer(scale_program(), net(scale=Scale(2.0)), net(scale=Scale(0.0)), outside=places)
    for value in (1.0, 2.0):
        places["input"].fill_(value)
        places["output.deriv"].fill_(value + 10)
        computer.run()
        computer.run()
        computer.reset()
        np.testing.assert_array_equal(places["output"], np.full((2, 3), 2 * value))
        np.testing.assert_array_equal(places["input.deriv"], np.full((2, 3), 2 * (value + 10)))
    with pytest.raises(ExecutionError, match="'input' is bound to outside memory: write it there"):
        computer.accept_input("input", FEATURES)


def test_get_output_gives_the_bound_tensor() -> None:
    place = torch.zeros(2, 3)
    computer = NnetComputer(scale_program(), net(scale=Scale(2.0)), net(scale=Scale()), outside={"output": place})
    assert forward(computer) is place


def test_a_state_comes_from_one_place_and_goes_to_another() -> None:
    program = Program()
    kernel = program.kernel(KernelInfo("scale"))
    state, after = program.input("state", 2, 3), program.matrix(2, 3)
    program.add(cmd.Propagate(kernel, "scale", (state,), after)).output("state", after)
    places = {"state": torch.ones(2, 3), "state.after": torch.zeros(2, 3)}
    computer = NnetComputer(program.computation, net(scale=Scale(2.0)), outside=places)
    for expected in (2.0, 4.0):
        computer.run()
        assert computer.get_output("state") is places["state.after"]
        np.testing.assert_array_equal(places["state.after"], np.full((2, 3), expected))
        computer.reset()
        places["state"].copy_(places["state.after"])


W = torch.zeros(2, 3)
with torch.inference_mode():
    INFERENCE = torch.zeros(2, 3)


@pytest.mark.parametrize(
    ("outside", "message"),
    [
        ({}, r"works on memory 'W', which is not bound: give outside=\{'W': \.\.\.\}"),
        ({"W": W, "W.gradient": W, "X": W}, "nothing of the name 'X' can be bound to outside memory; there is: "),
        ({"W": W.numpy(), "W.gradient": W}, "outside memory 'W' must be a tensor, got ndarray"),
        ({"W": W.t(), "W.gradient": W}, r"outside memory 'W': expected \(rows, columns\) \(2, 3\), got \(3, 2\)"),
        ({"W": W.double(), "W.gradient": W}, "outside memory 'W': expected float32, got torch.float64"),
        ({"W": W.to("meta"), "W.gradient": W}, "outside memory 'W' is on meta, but the computation runs on cpu"),
        ({"W": W, "W.gradient": torch.zeros(1, 3).expand(2, 3)}, "'W.gradient' is written to, but is an expanded"),
        ({"W": W, "W.gradient": INFERENCE}, "'W.gradient' is written to, but was made in inference mode"),
    ],
)
def test_memory_that_does_not_fit(outside: dict[str, Any], message: str) -> None:
    with pytest.raises(ExecutionError, match=message):
        NnetComputer(product_program(), net(product=Product()), outside=outside, dtype=torch.float32)


def test_expanded_memory_may_be_read() -> None:
    outside = {"W": torch.full((1, 3), 3.0).expand(2, 3), "W.gradient": torch.zeros(2, 3)}
    computer = NnetComputer(product_program(), net(product=Product()), outside=outside)
    np.testing.assert_array_equal(forward(computer), 3 * FEATURES)
