"""A matrix that only copies another gives way to it, if neither is written afterwards."""

from __future__ import annotations

import pytest

from nnet3.ir import commands as cmd
from nnet3.ir.checker import check_computation
from nnet3.ir.commands import Command
from nnet3.ir.computation import NnetComputation
from nnet3.ir.passes.share_copies import share_copies
from nnet3.ir.program_tables import IoInfo
from tests.ir.programs import index_table, lines, multi_table, node_matrix, range_table, run
from tests.ir.toy_kernels import KERNELS

X, COPY, OUT = 1, 2, 3  # an input, a matrix that copies it, an output; all have four rows
X_TOP, X_BOTTOM, COPY_TOP, COPY_BOTTOM, OUT_TOP = 4, 5, 6, 7, 8  # halves of them


def _program(*commands: Command) -> NnetComputation:
    c = NnetComputation(kernels=list(KERNELS))
    x, copy, out = (node_matrix(c, name, 4) for name in ("input", "affine_input", "output"))
    for matrix, row in ((x, 0), (x, 2), (copy, 0), (copy, 2), (out, 0)):
        c.new_submatrix(matrix, row, 2)
    c.inputs, c.outputs = [IoInfo("input", x, 0)], [IoInfo("output", out, 0)]
    c.commands = [
        *(cmd.AllocMatrix(matrix, zeroed=True) for matrix in (x, copy, out)),
        cmd.AcceptInput(x, "input"),
        *commands,
        cmd.ProvideOutput(out, "output"),
        *(cmd.DeallocMatrix(matrix) for matrix in (x, copy)),
    ]
    if not any(command.form.table_fields for command in commands):  # the caller makes them
        check_computation(c)
    return c


SHARED = {
    "whole": ([cmd.MatrixCopy(COPY, X), cmd.MatrixAdd(OUT, COPY, 2.0)], ["m3 += 2 * m1"]),
    "a part is read": ([cmd.MatrixCopy(COPY, X), cmd.MatrixAdd(OUT_TOP, COPY_BOTTOM)], ["m3(0:1, :) += m1(2:3, :)"]),
    "piece by piece": (
        [cmd.MatrixCopy(COPY_TOP, X_TOP), cmd.MatrixCopy(COPY_BOTTOM, X_BOTTOM), cmd.MatrixAdd(OUT, COPY)],
        ["m3 += m1"],
    ),
}
READ_BY_TABLES = {
    "rows of blocks": cmd.AddRowsMulti(OUT, 0),
    "rows of one": cmd.AddRows(OUT, COPY, 0),
    "ranges": cmd.AddRowRanges(OUT_TOP, COPY, 0),
}
KEPT = {
    "scaled": [cmd.MatrixCopy(COPY, X, 0.5), cmd.MatrixAdd(OUT, COPY)],
    "the copy changes": [cmd.MatrixCopy(COPY, X), cmd.MatrixAdd(COPY, X), cmd.MatrixAdd(OUT, COPY)],
    "the original changes": [cmd.MatrixCopy(COPY, X), cmd.SetConst(X, 1.0), cmd.MatrixAdd(OUT, COPY)],
    "a part of the original changes": [cmd.MatrixCopy(COPY, X), cmd.SetConst(X_TOP, 1.0), cmd.MatrixAdd(OUT, COPY)],
    "turned round": [
        cmd.MatrixCopy(COPY_TOP, X_BOTTOM),
        cmd.MatrixCopy(COPY_BOTTOM, X_TOP),
        cmd.MatrixAdd(OUT, COPY),
    ],
    "half of it is zero": [cmd.MatrixCopy(COPY_TOP, X_TOP), cmd.MatrixAdd(OUT, COPY)],
    "one half twice": [
        cmd.MatrixCopy(COPY_TOP, X_TOP),
        cmd.MatrixCopy(COPY_TOP, X_TOP),
        cmd.MatrixAdd(OUT, COPY),
    ],
    "provided": [cmd.MatrixCopy(OUT, X)],
}


@pytest.mark.parametrize(("commands", "expected"), SHARED.values(), ids=SHARED.keys())
def test_copies_share_their_matrix(commands: list[Command], expected: list[str]) -> None:
    before = _program(*commands)
    after = share_copies(before)
    check_computation(after)
    start = ["m1 = zeros(4, 3)", "m3 = zeros(4, 3)", "m1 = user input [for node: 'input']"]
    assert lines(after) == [*start, *expected, "output m3 to user [for node: 'output']", "m1 = []"]
    run(after).check_equals(run(before))
    assert share_copies(after) is after


@pytest.mark.parametrize("reader", READ_BY_TABLES.values(), ids=READ_BY_TABLES.keys())
def test_tables_name_the_shared_matrix(reader: Command) -> None:
    before = _program(cmd.MatrixCopy(COPY_TOP, X_TOP), cmd.MatrixCopy(COPY_BOTTOM, X_BOTTOM), reader)
    multi_table(before, [(COPY_BOTTOM, 1), (X, 0), (-1, -1), (COPY, 1)])
    index_table(before, [3, -1, 0, 2])
    range_table(before, [(0, 3), (2, 4)])
    check_computation(before)
    after = share_copies(before)
    check_computation(after)
    assert not any("m2" in line for line in lines(after))
    run(after).check_equals(run(before))


@pytest.mark.parametrize("commands", KEPT.values(), ids=KEPT.keys())
def test_copies_that_are_needed_are_kept(commands: list[Command]) -> None:
    computation = _program(*commands)
    assert share_copies(computation) is computation


def test_a_small_part_of_a_large_matrix_is_copied() -> None:
    computation = _program(cmd.MatrixAdd(OUT, X))
    small = computation.new_matrix(1, 3)
    row = computation.new_submatrix(X, 1, 1)
    out_row = computation.new_submatrix(OUT, 0, 1)
    computation.commands[3:3] = [cmd.AllocMatrix(small, zeroed=True)]
    computation.commands[5:5] = [cmd.MatrixCopy(small, row), cmd.MatrixAdd(out_row, small)]
    computation.commands.append(cmd.DeallocMatrix(small))
    check_computation(computation)
    assert share_copies(computation) is computation
