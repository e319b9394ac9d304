"""One broken computation for each rule about a single command, and for the tables of a computation."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from nnet3.errors import ComputationCheckError
from nnet3.ir import commands as cmd
from nnet3.ir.checker import check_computation
from nnet3.ir.computation import IoInfo, Matrix, MatrixInfo, OutsideMatrix, SubMatrix
from tests.ir.changes import (
    ACCEPT,
    ADD_OUT,
    AFFINE_BACKPROP,
    HIDDEN,
    HIDDEN_DERIV,
    INPUT,
    INPUT_DERIV,
    LAST,
    MARKER,
    MIDDLE,
    PROVIDE,
    SPLICED,
    SPLICED_DERIV,
    UPPER,
    Change,
    Y,
    put,
    then,
    with_blocks,
    with_fields,
    with_kernel,
    with_table,
)
from tests.ir.programs import training_step

TABLES = {
    "no elements": (lambda c: c.matrices.append(Matrix(0, 3)), "matrix m11 is 0 x 3: it has no elements"),
    "no columns": (lambda c: c.matrices.append(Matrix(3, 0)), "matrix m11 is 3 x 0: it has no elements"),
    "no matrix": (with_blocks(SubMatrix(77, 0, 1, 0, 1)), "sub-matrix 11 is in matrix 77, which does not exist"),
    "outside rows": (with_blocks(SubMatrix(1, 4, 3, 0, 3)), "sub-matrix 11, m1(4:6, :), is not inside"),
    "outside columns": (with_blocks(SubMatrix(1, 0, 1, 2, 2)), "sub-matrix 11, m1(0, 2:3), is not inside"),
    "no rows": (with_blocks(SubMatrix(1, 3, 0, 0, 3)), "sub-matrix 11, "),
    "indexes": (
        lambda c: c.matrix_info.update({1: MatrixInfo("input", False, np.zeros((5, 3)))}),
        "m1 has 6 rows, but its indexes have shape (5, 3)",
    ),
    "input just behind the last": (
        lambda c: c.inputs.append(IoInfo("x", len(c.submatrices), 0)),
        "'x' is in a sub-matrix that does not exist",
    ),
    "derivative just behind the last": (
        lambda c: c.inputs.append(IoInfo("x", 1, len(c.submatrices))),
        "'x' is in a sub-matrix that does not exist",
    ),
    "input nowhere": (lambda c: c.inputs.append(IoInfo("x", 99, 0)), "'x' is in a sub-matrix that does not exist"),
    "outside nowhere": (
        lambda c: c.outside.append(OutsideMatrix("W", 99, True)),
        "outside memory 'W' is sub-matrix 99, which does not exist",
    ),
    "outside a part": (
        then(with_blocks(UPPER), lambda c: c.outside.append(OutsideMatrix("W", 11, True))),
        "outside memory 'W' must be a whole matrix, got m5(0:1, :)",
    ),
    "outside twice": (
        lambda c: [c.new_outside("W", 1, 1, True) for _ in range(2)],
        "two matrices lie in outside memory 'W'",
    ),
    "in two places": (
        lambda c: c.outside.extend(OutsideMatrix(name, 1, True) for name in "ab"),
        "matrix m1 lies in two places, one of which is outside memory 'b'",
    ),
    "no matrix to tell of": (
        lambda c: c.matrix_info.update({99: MatrixInfo("x", False, None)}),
        "there is information about matrix 99, which does not exist",
    ),
    "output nowhere": (lambda c: c.outputs.append(IoInfo("x", 0, 0)), "'x' is in a sub-matrix that does not exist"),
}

OPERANDS = {
    "unknown": (put(ADD_OUT, cmd.MatrixCopy(Y, 99)), "its source is sub-matrix 99, expected 1 to 10"),
    "empty": (put(ADD_OUT, cmd.MatrixCopy(0, Y)), "its dest is sub-matrix 0, expected 1 to 10"),
    "part of a matrix": (
        then(with_blocks(UPPER), put(MARKER, cmd.CompressMatrix(11))),
        "must be a whole matrix, got m5(0:1, :)",
    ),
    "alloc a part": (
        then(with_blocks(UPPER), with_fields(4, matrix=11)),
        "c4: m5(0:1, :) = zeros(2, 3)\n  its matrix must be a whole matrix",
    ),
    "dealloc a part": (then(with_blocks(UPPER), with_fields(LAST, matrix=11)), "must be a whole matrix"),
    "decompress a part": (then(with_blocks(UPPER), put(MARKER, cmd.DecompressMatrix(11))), "must be a whole matrix"),
    "set": (put(ADD_OUT, cmd.SetConst(-3, 1.0)), "its dest is sub-matrix -3"),
    "copy rows of sizes": (
        put(ADD_OUT, cmd.MatrixCopy(Y, INPUT)),
        "c14: m5 = m1\n  its dest is 4 x 3, its source 6 x 3; they must be equal",
    ),
    "add sizes": (with_fields(ADD_OUT, source=INPUT), "c14: m6 += m1\n  its dest is 4 x 3, its source 6 x 3"),
    "rows columns": (
        then(with_blocks(SubMatrix(1, 0, 6, 0, 2)), with_fields(11, source=11)),
        "its dest has 3 columns, its source 2",
    ),
    "no index table": (with_fields(11, indexes=5), "its indexes is 5, expected 0 to 1"),
    "index table length": (with_fields(11, indexes=1), "its index table has 6 entries, its dest 4 rows"),
    "index too large": (
        with_table("index_tables", [0, 1, 4, 0], cmd.CopyRows(HIDDEN, Y, 9)),
        "entry 2 of its index table is row 4, expected -1 to 3",
    ),
    "index too small": (
        with_table("index_tables", [0, 1, 2, -2], cmd.AddRows(HIDDEN, Y, 9)),
        "entry 3 of its index table is row -2, expected -1 to 3",
    ),
    "index type": (
        with_table("index_tables", [0, 1, 2, 3], cmd.AddRows(HIDDEN, Y, 9), dtype=float),
        "its indexes, table 9, must hold integers, got float64",
    ),
    "range past the end": (
        with_table("range_tables", [(0, 1), (1, 5), (0, 0), (0, 0)], cmd.AddRowRanges(HIDDEN, Y, 9)),
        "entry 1 of its range table is [1, 5), expected 0 <= first <= end <= 4",
    ),
    "range backwards": (
        with_table("range_tables", [(0, 1), (3, 1), (0, 0), (0, 0)], cmd.AddRowRanges(HIDDEN, Y, 9)),
        "entry 1 of its range table is [3, 1)",
    ),
    "range of -1": (
        with_table("range_tables", [(0, 1), (-1, -1), (0, 0), (0, 0)], cmd.AddRowRanges(HIDDEN, Y, 9)),
        "entry 1 of its range table is [-1, -1)",
    ),
    "range table shape": (
        with_table("range_tables", [0, 1, 2, 3], cmd.AddRowRanges(HIDDEN, Y, 9)),
        "its ranges, table 9, has shape (4,), expected (rows, 2)",
    ),
    "multi sub-matrix": (
        with_table("multi_tables", [(Y, 0), (11, 0), (-1, -1), (Y, 0)], cmd.AddRowsMulti(HIDDEN, 9)),
        "entry 1 of its row table is (11, 0), expected a sub-matrix and a row, or (-1, -1)",
    ),
    "multi half empty": (
        with_table("multi_tables", [(Y, 0), (Y, 0), (-1, 0), (Y, 0)], cmd.CopyRowsMulti(HIDDEN, 9)),
        "entry 2 of its row table is (-1, 0)",
    ),
    "multi row": (
        with_table("multi_tables", [(INPUT, 5), (Y, 4), (-1, -1), (Y, 0)], cmd.CopyRowsMulti(HIDDEN, 9)),
        "entry 1 of its row table is row 4 of m5, which has 4",
    ),
    "multi negative row": (
        with_table("multi_tables", [(INPUT, 5), (Y, -1), (-1, -1), (Y, 0)], cmd.CopyRowsMulti(HIDDEN, 9)),
        "entry 1 of its row table is row -1 of m5, which has 4",
    ),
    "multi columns": (
        then(
            with_blocks(SubMatrix(1, 0, 6, 0, 2)),
            with_table("multi_tables", [(Y, 0), (11, 0), (-1, -1), (Y, 0)], cmd.AddRowsMulti(HIDDEN, 9)),
        ),
        "entry 1 of its row table is in m1(:, 0:1) with 2 columns; its dest has 3",
    ),
    "multi length": (
        with_table("multi_tables", [(Y, 0)], cmd.AddRowsMulti(HIDDEN, 9)),
        "its row table has 1 entries, its dest 4 rows",
    ),
    "multi no table": (put(ADD_OUT, cmd.AddRowsMulti(HIDDEN, 0)), "its table is 0, expected 0 to -1"),
    "scatter twice": (
        with_table("multi_tables", [(INPUT, 5), (Y, 1), (-1, -1), (INPUT, 5)], cmd.AddToRowsMulti(HIDDEN, 9)),
        "entries 0 and 3 of its row table name the same row",
    ),
    "scatter twice by other names": (
        then(
            with_blocks(UPPER, MIDDLE),
            with_table("multi_tables", [(11, 1), (-1, -1), (12, 1), (12, 0)], cmd.AddToRowsMulti(HIDDEN, 9)),
        ),
        "entries 0 and 3 of its row table name the same row",
    ),
    "input columns": (
        then(with_blocks(SubMatrix(1, 0, 6, 0, 2)), with_fields(ACCEPT, dest=11)),
        "its dest has 2 columns, its declared 3",
    ),
    "input name": (with_fields(ACCEPT, name="inptu"), "'inptu' is not an input or an output with derivative"),
    "output name": (with_fields(PROVIDE, name="outptu"), "'outptu' is not an output or an input with derivative"),
}

PROPAGATE = cmd.Propagate(0, "affine", (SPLICED,), HIDDEN)
BACKPROP = cmd.Backprop(0, "affine", (SPLICED,), 0, HIDDEN_DERIV, (SPLICED_DERIV,), (0,), update=True)
KERNELS = {
    "no kernel": (put(ADD_OUT, replace(PROPAGATE, kernel=6)), "its kernel is 6, expected 0 to 5"),
    "no precomputed": (put(ADD_OUT, replace(PROPAGATE, precomputed=1)), "its precomputed is 1, expected 0 to 0"),
    "memo number": (put(ADD_OUT, replace(PROPAGATE, memo=0)), "its memo is 0, expected -1 to -1"),
    "memo unused": (
        then(with_kernel(0), put(ADD_OUT, replace(PROPAGATE, memo=0))),
        "it has memo 0, but kernel 'affine' uses none",
    ),
    "statistics": (put(ADD_OUT, replace(PROPAGATE, store_stats=True)), "stores statistics, but kernel 'affine' has no"),
    "no input": (put(ADD_OUT, replace(PROPAGATE, inputs=(0,))), "its inputs[0] is sub-matrix 0, expected 1 to 10"),
    "no output": (put(ADD_OUT, replace(PROPAGATE, output=0)), "its output is sub-matrix 0, expected 1 to 10"),
    "rows of a row-wise kernel": (
        put(ADD_OUT, replace(PROPAGATE, inputs=(INPUT,))),
        "its inputs[0] has 6 rows, its output 4; they must be equal",
    ),
    "backprop rows": (
        with_fields(AFFINE_BACKPROP, inputs=(INPUT,), input_derivs=(INPUT_DERIV,)),
        "its input_derivs[0] has 6 rows, its output_deriv 4",
    ),
    "no output derivative": (with_fields(AFFINE_BACKPROP, output_deriv=0), "its output_deriv is sub-matrix 0"),
    "output unlike its derivative": (
        with_fields(AFFINE_BACKPROP, output=INPUT),
        "its output is 6 x 3, its output_deriv 4 x 3",
    ),
    "input unlike its derivative": (
        with_fields(AFFINE_BACKPROP, input_derivs=(INPUT_DERIV,)),
        "its inputs[0] is 4 x 3, its input_derivs[0] 6 x 3",
    ),
    "unknown operands": (with_fields(AFFINE_BACKPROP, input_derivs=(40,)), "its input_derivs[0] is sub-matrix 40"),
    "unknown output": (with_fields(AFFINE_BACKPROP, output=-1), "its output is sub-matrix -1, expected 0 to 10"),
    "unequal numbers": (
        with_fields(AFFINE_BACKPROP, input_derivs=()),
        "it has 1 inputs, 0 input derivatives and 1 added ones; kernel 'affine' has 1 inputs",
    ),
    "needs input": (
        with_fields(AFFINE_BACKPROP, inputs=(0,)),
        "'affine' needs the value of its input 0, but it is empty",
    ),
    "needs output": (with_fields(19, output=0), "kernel 'sigmoid' needs its output value, but it is empty"),
    "needs a memo": (with_kernel(0, uses_memo=True), "kernel 'affine' needs the memo of its Propagate"),
    "update not asked for": (
        lambda c: setattr(c, "need_model_derivative", False),
        "it updates kernel 'affine' in a computation without model derivative",
    ),
    "number of inputs": (
        put(ADD_OUT, replace(PROPAGATE, inputs=(SPLICED, Y))),
        "it has 2 inputs, kernel 'affine' 1",
    ),
    "overwritten and added to": (
        with_fields(AFFINE_BACKPROP, added_derivs=(SPLICED_DERIV,)),
        "the derivative of its input 0 is both overwritten and added to",
    ),
    "added to without promise": (
        with_fields(19, input_derivs=(0,), added_derivs=(HIDDEN_DERIV,)),
        "kernel 'sigmoid' does not promise to add to the derivative of its input 0",
    ),
    "added to something smaller": (
        with_fields(AFFINE_BACKPROP, input_derivs=(0,), added_derivs=(INPUT_DERIV,)),
        "its inputs[0] is 4 x 3, its added_derivs[0] 6 x 3",
    ),
    "memo of a kernel without": (
        then(lambda c: setattr(c, "num_memos", 1), with_fields(AFFINE_BACKPROP, memo=0)),
        "it has memo 0, but kernel 'affine' uses none",
    ),
    "input derivatives overlap": (
        put(21, cmd.Backprop(3, "product", (SPLICED, HIDDEN), 0, HIDDEN_DERIV, (Y, Y), (0, 0), update=False)),
        "two of its input derivatives overlap",
    ),
    "memo twice": (
        then(
            with_kernel(0, uses_memo=True),
            put(12, replace(PROPAGATE, memo=1)),
            put(12, replace(PROPAGATE, memo=1)),
            with_fields(22, memo=1),
        ),
        "c13: affine.Propagate(m3, &m4) [memo 1]\n  memo 1 is made by c12 already",
    ),
    "memo not made": (
        then(with_kernel(0, uses_memo=True), with_fields(AFFINE_BACKPROP, memo=1)),
        "no command before it makes memo 1",
    ),
    "memo of another": (
        then(
            with_kernel(0, uses_memo=True),
            with_kernel(1, uses_memo=True),
            with_fields(13, memo=1),
            with_fields(19, memo=1),
            with_fields(AFFINE_BACKPROP, memo=1),
        ),
        "memo 1 is that of kernel 'sigmoid' at c13",
    ),
}


def test_inputs_without_samples_may_have_any_size() -> None:
    computation = training_step()
    parameter = computation.new_outside("W", 9, 3, writable=False)
    product = computation.new_matrix(5, 3, MatrixInfo("norms", False, None))
    computation.commands[ADD_OUT:ADD_OUT] = [
        cmd.AllocMatrix(product, zeroed=True),
        cmd.Propagate(3, "scores", (SPLICED, parameter), Y),
        cmd.Propagate(3, "scores", (SPLICED, product), Y),
        cmd.DeallocMatrix(product),
    ]
    check_computation(computation)
    with_samples = computation.new_outside("x", 9, 3, False, MatrixInfo("x", False, np.zeros((9, 3), np.int32)))
    computation.commands[ADD_OUT + 1] = cmd.Propagate(3, "scores", (SPLICED, with_samples), Y)
    with pytest.raises(ComputationCheckError, match=r"its inputs\[1\] has 9 rows, its output 4; they must be equal"):
        check_computation(computation)


@pytest.mark.parametrize(
    ("change", "message"),
    [pytest.param(*case, id=name) for table in (TABLES, OPERANDS, KERNELS) for name, case in table.items()],
)
def test_broken(change: Change, message: str) -> None:
    computation = training_step()
    check_computation(computation)
    change(computation)
    with pytest.raises(ComputationCheckError, match=re.escape(message)):
        check_computation(computation)
