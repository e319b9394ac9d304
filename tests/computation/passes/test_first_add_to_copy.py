"""The first addition to zeros becomes a copy, and only that."""

from __future__ import annotations

import pytest

from computation.programs import index_table, lines, loop, multi_table, node_matrix, run, training_step
from computation.toy_kernels import KERNELS
from nnet3.computation import commands as cmd
from nnet3.computation.checker import check_computation
from nnet3.computation.commands import Command
from nnet3.computation.computation import IoInfo, NnetComputation
from nnet3.computation.passes.first_add_to_copy import first_add_to_copy
from nnet3.errors import ComputationCheckError

X, OUT, FIRST, SECOND = (
    1,
    2,
    3,
    4,
)  # an input, an output, and rows 0:1 and 2:3 of the output; 5 is rows 0:1 of the input


def _program(*commands: Command, zeroed: bool = True) -> NnetComputation:
    c = NnetComputation(kernels=list(KERNELS))
    x, out = node_matrix(c, "input", 4), node_matrix(c, "output", 4)
    for matrix, row in ((out, 0), (out, 2), (x, 0)):
        c.new_submatrix(matrix, row, 2)
    index_table(c, [0, -1, 2, 3])
    multi_table(c, [(X, 0), (-1, -1), (5, 1), (X, 3)])
    c.inputs, c.outputs = [IoInfo("input", x, 0)], [IoInfo("output", out, 0)]
    c.commands = [
        cmd.AllocMatrix(x, zeroed=False),
        cmd.AllocMatrix(out, zeroed),
        cmd.AcceptInput(x, "input"),
        *commands,
        cmd.ProvideOutput(out, "output"),
        cmd.DeallocMatrix(x),
        cmd.DeallocMatrix(out),
    ]
    check_computation(c)
    return c


CASES = {
    "matrix": ([cmd.MatrixAdd(OUT, X, 0.5)], ["m2 = 0.5 * m1"]),
    "rows": ([cmd.AddRows(OUT, X, 0)], ["m2.CopyRows(1, m1[0, -1, 2:3])"]),
    "multi": (
        [cmd.AddRowsMulti(OUT, 0, -1.0)],
        ["m2.CopyRowsMulti(-1, [m1(0, :), -1, m1(1, :), m1(3, :)])"],
    ),
    "only the first": ([cmd.MatrixAdd(OUT, X), cmd.AddRows(OUT, X, 0)], ["m2 = m1", "m2.AddRows(1, m1[0, -1, 2:3])"]),
    "part by part": (
        [cmd.MatrixAdd(FIRST, 5), cmd.MatrixAdd(SECOND, 5)],
        ["m2(0:1, :) = m1(0:1, :)", "m2(2:3, :) = m1(0:1, :)"],
    ),
    "part and then all": ([cmd.MatrixAdd(SECOND, 5), cmd.MatrixAdd(OUT, X)], ["m2(2:3, :) = m1(0:1, :)", "m2 += m1"]),
    "zeros that were only read": (
        [cmd.MatrixAdd(X, OUT), cmd.MatrixAdd(OUT, X)],
        ["m1 += m2", "m2 = m1"],
    ),
    "after a constant": ([cmd.SetConst(OUT, 1.0), cmd.MatrixAdd(OUT, X)], ["m2.set(1)", "m2 += m1"]),
    "to input": ([cmd.MatrixAdd(5, FIRST)], ["m1(0:1, :) += m2(0:1, :)"]),
}


@pytest.mark.parametrize(("commands", "expected"), CASES.values(), ids=CASES.keys())
def test_printed_form(commands: list[Command], expected: list[str]) -> None:
    before = _program(*commands)
    after = first_add_to_copy(before)
    check_computation(after)
    assert lines(after)[3 : 3 + len(expected)] == expected
    run(after).check_equals(run(before))
    assert first_add_to_copy(after) is after


def test_same_object_if_nothing_changes() -> None:
    c = _program(cmd.SetConst(OUT, 1.0), cmd.MatrixAdd(OUT, X), zeroed=False)
    assert first_add_to_copy(c) is c
    no_additions = _program(cmd.MatrixCopy(OUT, X))
    assert first_add_to_copy(no_additions) is no_additions


def test_an_addition_to_something_undefined_is_not_hidden() -> None:
    c = _program(cmd.MatrixCopy(OUT, X))
    c.commands[1:4] = [cmd.AllocMatrix(OUT, zeroed=False), c.commands[2], cmd.MatrixAdd(OUT, X)]
    with pytest.raises(ComputationCheckError, match="undefined"):
        check_computation(c)
    assert first_add_to_copy(c) is c


def test_sums_that_live_through_a_loop_are_not_zero_in_every_round() -> None:
    c = loop()
    copy = next(number for number, command in enumerate(c.commands) if isinstance(command, cmd.CopyRows))
    total, state, x = 3, 1, 4
    c.commands[copy : copy + 2] = [cmd.MatrixAdd(total, state), cmd.MatrixAdd(total, x)]
    check_computation(c)
    after = first_add_to_copy(c)
    assert "m3 += m1" in lines(after)
    assert "m5 = m2" in lines(after), "m5 is allocated in each round"
    run(after).check_equals(run(c))


def test_the_argument_is_not_changed() -> None:
    c = training_step()
    before = lines(c)
    assert first_add_to_copy(c) is not c
    assert lines(c) == before
