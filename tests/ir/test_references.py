"""References of commands and tables to what does not exist, and what is said of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from nnet3.engine.ir import commands as cmd
from nnet3.engine.ir.commands import Command
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.program_tables import IoInfo, Matrix, MatrixInfo, OutsideMatrix, SubMatrix
from nnet3.engine.ir.references import reference_problems, table_problems
from tests.ir.changes import (
    UPPER,
    Change,
    check_broken,
    then,
    with_blocks,
)
from tests.ir.toy_kernels import KERNELS

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


def _computation() -> NnetComputation:
    """Matrices and sub-matrices 1 and 2 of 4 x 3, 3: rows 0 and 1 of the first."""
    c = NnetComputation(kernels=list(KERNELS))
    for _ in range(2):
        c.new_matrix(4, 3)
    c.new_submatrix(1, 0, 2)
    c.new_index_table(np.zeros(4, np.int32))
    return c


def _problems(command: Command, change: Callable[[NnetComputation], object] = lambda c: None) -> list[str]:
    c = _computation()
    change(c)
    return list(reference_problems(c, command, c.outside_by_matrix()))


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (cmd.MatrixCopy(1, 2), None),
        (cmd.MatrixCopy(1, 9), "is sub-matrix 9, expected 1 to 3"),
        (cmd.MatrixCopy(0, 1), "is sub-matrix 0, expected 1 to 3"),
        (cmd.AddRows(1, 2, 0), None),
        (cmd.AddRows(1, 2, 1), " is 1, expected 0 to 0"),
        (cmd.DeallocMatrix(3), " must be a whole matrix, got m1(0:1, :)"),
    ],
)
def test_commands_that_refer_to_nothing_are_found(command: Command, message: str | None) -> None:
    found = next(reference_problems(_computation(), command, {}), None)
    assert (found is None) if message is None else (found is not None and message in found)


def test_tables_have_the_form_that_is_declared() -> None:
    def wrong_shape(c: NnetComputation) -> None:
        c.index_tables[0] = np.zeros((4, 2), np.int32)

    def floats(c: NnetComputation) -> None:
        c.index_tables[0] = np.zeros(4)

    assert "has shape (4, 2), expected (rows,)" in _problems(cmd.AddRows(1, 2, 0), wrong_shape)[0]
    assert "must hold integers, got float64" in _problems(cmd.AddRows(1, 2, 0), floats)[0]


def test_outside_memory_neither_begins_nor_ends() -> None:
    (problem,) = _problems(cmd.DeallocMatrix(1), lambda c: c.outside.append(OutsideMatrix("w", 1, False)))
    assert "lies in outside memory 'w', which is there before and after a computation" in problem


def _resize(c: NnetComputation) -> None:
    c.matrices[1] = c.matrices[1]._replace(num_rows=0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: None, None),
        (_resize, "matrix m1 is 0 x 3: it has no elements"),
        (lambda c: c.submatrices.append(c.submatrices[1]._replace(matrix=7)), "is in matrix 7, which does not exist"),
        (lambda c: c.submatrices.append(c.submatrices[1]._replace(num_rows=5)), "is not inside its matrix of 4 x 3"),
        (lambda c: c.inputs.append(IoInfo("x", 0, 0)), "input or output 'x' is in a sub-matrix that does not exist"),
        (
            lambda c: c.outside.append(OutsideMatrix("w", 9, False)),
            "outside memory 'w' is sub-matrix 9, which does not exist",
        ),
        (
            lambda c: c.outside.append(OutsideMatrix("w", 3, False)),
            "outside memory 'w' must be a whole matrix, got m1(0:1",
        ),
        (
            lambda c: c.outside.extend([OutsideMatrix("w", 1, False), OutsideMatrix("w", 2, False)]),
            "two matrices lie in outside",
        ),
        (
            lambda c: c.outside.extend([OutsideMatrix("v", 1, False), OutsideMatrix("w", 1, False)]),
            "m1 lies in two places",
        ),
    ],
)
def test_tables_of_a_computation(change: Callable[[NnetComputation], object], message: str | None) -> None:
    c = _computation()
    change(c)
    first = next(table_problems(c), None)
    assert (first is None) if message is None else (first is not None and message in first)


@pytest.mark.parametrize(("change", "message"), TABLES.values(), ids=TABLES.keys())
def test_broken_references_are_refused(change: Change, message: str) -> None:
    check_broken(change, message)
