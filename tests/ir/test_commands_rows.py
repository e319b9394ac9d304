"""One broken computation for each rule about operands and tables of rows."""

from __future__ import annotations

import pytest

from nnet3.engine.ir import commands as cmd
from nnet3.engine.ir.program_tables import SubMatrix
from tests.ir.changes import (
    ACCEPT,
    ADD_OUT,
    HIDDEN,
    INPUT,
    LAST,
    MARKER,
    MIDDLE,
    PROVIDE,
    UPPER,
    Change,
    Y,
    check_broken,
    put,
    then,
    with_blocks,
    with_fields,
    with_table,
)

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


@pytest.mark.parametrize(("change", "message"), OPERANDS.values(), ids=OPERANDS.keys())
def test_broken_row_commands_are_refused(change: Change, message: str) -> None:
    check_broken(change, message)
