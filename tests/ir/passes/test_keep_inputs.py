"""A kernel that can go backward with its input, which is kept anyway, has no need of its output."""

from __future__ import annotations

import pytest

from nnet3.ir import commands as cmd
from nnet3.ir.checker import check_computation
from nnet3.ir.computation import NnetComputation
from nnet3.ir.passes.keep_inputs import keep_inputs
from nnet3.ir.passes.pipeline import optimize
from nnet3.ir.program_tables import IoInfo
from tests.ir.programs import lines, node_matrix, run
from tests.ir.toy_kernels import DEVIATION, KERNELS, RECTIFIER, SIGMOID


def program(rows: int = 4) -> NnetComputation:
    """input -> rectifier -> deviation -> sigmoid -> output, and back."""
    c = NnetComputation(kernels=[*KERNELS, RECTIFIER, DEVIATION], need_model_derivative=True, num_memos=1)
    rectifier, deviation = len(KERNELS), len(KERNELS) + 1
    names = ("input", "rectifier", "deviation", "output")
    x, r, d, y = (node_matrix(c, name, rows) for name in names)
    x_d, r_d, d_d, y_d = (node_matrix(c, name, rows, is_deriv=True) for name in names)
    owned = [x, r, d, y, x_d, r_d, d_d, y_d]
    c.inputs, c.outputs = [IoInfo("input", x, x_d)], [IoInfo("output", y, y_d)]
    c.commands = [
        *(cmd.AllocMatrix(m, zeroed=True) for m in owned),
        cmd.AcceptInput(x, "input"),
        cmd.Propagate(rectifier, "rectifier", (x,), r),
        cmd.Propagate(deviation, "deviation", (r,), d, memo=0),
        cmd.Propagate(SIGMOID, "sigmoid", (d,), y),
        cmd.ProvideOutput(y, "output"),
        cmd.SegmentMarker(),
        cmd.AcceptInput(y_d, "output"),
        cmd.Backprop(SIGMOID, "sigmoid", (0,), y, y_d, (d_d,), (0,), update=False),
        cmd.Backprop(deviation, "deviation", (0,), d, d_d, (r_d,), (0,), update=False, memo=0),
        cmd.Backprop(rectifier, "rectifier", (0,), r, r_d, (x_d,), (0,), update=False),
        cmd.ProvideOutput(x_d, "input"),
        *(cmd.DeallocMatrix(m) for m in owned),
    ]
    return c


def place_of(c: NnetComputation, node: str, kind: type[cmd.Command] = cmd.Backprop) -> int:
    return next(n for n, command in enumerate(c.commands) if isinstance(command, kind) and node in lines(c)[n])


def test_the_input_takes_the_place_of_the_output() -> None:
    before = program()
    after = keep_inputs(before)
    check_computation(after)
    assert lines(before)[place_of(before, "deviation")] == "deviation.Backprop([], m3, m7, &m6) [memo 0]"
    assert lines(after)[place_of(after, "deviation")] == "deviation.Backprop(m2, [], m7, &m6) [memo 0]"
    assert sum(a != b for a, b in zip(lines(before), lines(after), strict=True)) == 1
    run(after).check_equals(run(before))
    assert keep_inputs(after) is after


def test_what_comes_next_works_in_place() -> None:
    before = program()
    after = optimize(before, check_between=True)
    run(after).check_equals(run(before))
    assert run(after).peak_elements < run(optimize(before, disabled={"keep_inputs"})).peak_elements


def read_by_another(c: NnetComputation) -> None:
    c.commands.insert(place_of(c, "rectifier"), cmd.MatrixAdd(6, 3))


def written_between(c: NnetComputation) -> None:
    c.commands.insert(place_of(c, "sigmoid", cmd.Propagate), cmd.SetConst(2, 0.5))


def output_is_written_between(c: NnetComputation) -> None:
    c.commands.insert(place_of(c, "deviation"), cmd.SetConst(3, 0.5))


def nobody_needs_the_input_later(c: NnetComputation) -> None:
    c.commands[place_of(c, "rectifier")] = cmd.MatrixCopy(5, 6)


def another_segment(c: NnetComputation) -> None:
    c.commands.insert(place_of(c, "rectifier"), cmd.SegmentMarker())


@pytest.mark.parametrize(
    "change",
    [read_by_another, written_between, output_is_written_between, nobody_needs_the_input_later, another_segment],
)
def test_else_nothing_changes(change: object) -> None:
    c = program()
    assert callable(change)
    change(c)
    check_computation(c)
    assert keep_inputs(c) is c


def test_a_kernel_without_the_promise_keeps_its_output() -> None:
    c = program()
    c.kernels[-1] = KERNELS[1]
    assert keep_inputs(c) is c
