"""Checks that all numbers in commands and tables refer to existing objects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from nnet3.engine.ir.declarations import Command, Declaration, OperandField, Reference, Table
from nnet3.engine.ir.formatting import format_submatrix
from nnet3.engine.ir.variables import matrix_sizes, submatrix_table

if TYPE_CHECKING:
    from nnet3.engine.ir.computation import NnetComputation
    from nnet3.engine.ir.program_tables import OutsideMatrix


def limits(computation: NnetComputation, declared: Declaration) -> tuple[int, int] | None:
    """Returns the half-open interval of numbers allowed in a field so declared; None for a plain value."""
    if isinstance(declared, OperandField):
        return (0 if declared.optional else 1), len(computation.submatrices)
    if isinstance(declared, Table):
        return 0, len(getattr(computation, declared.tables))
    if isinstance(declared, Reference):
        return (-1, computation.num_memos) if declared.to == "memos" else (0, len(getattr(computation, declared.to)))
    return None


def reference_problems(
    computation: NnetComputation, command: Command, outside: Mapping[int, OutsideMatrix]
) -> Iterator[str]:
    """Yields each reference of a command to a missing object or to an object of another type than declared.

    `outside`: the result of `computation.outside_by_matrix()`, made once for all commands.
    """
    schema = command.schema
    operands = schema.operands(command)
    exist = not operands or (min(operands) > 0 and max(operands) < len(computation.submatrices))
    is_plain = exist and not schema.lives and not schema.table_fields  # as most commands are: only references are left
    for name, declared, several in schema.reference_fields if is_plain else schema.fields:
        limit = limits(computation, declared)
        if limit is None:
            continue
        value = getattr(command, name)
        for position, number in enumerate(value if several else (value,)):
            role = f"{name}[{position}]" if several else name
            if not limit[0] <= number < limit[1]:
                what = "sub-matrix " if isinstance(declared, OperandField) else ""
                yield f"its {role} is {what}{number}, expected {limit[0]} to {limit[1] - 1}"
            if isinstance(declared, OperandField) and declared.life is not None:
                yield from _whole_matrix(computation, role, number, outside)
            if isinstance(declared, Table):
                yield from _table(computation, role, declared, number)


def _whole_matrix(
    computation: NnetComputation, role: str, number: int, outside: Mapping[int, OutsideMatrix]
) -> Iterator[str]:
    """Checks an operand whose live range the command changes: a whole matrix of the arena is required."""
    if not computation.is_whole_matrix(number):
        yield f"its {role} must be a whole matrix, got {format_submatrix(computation, number)}"
    bound = outside.get(computation.submatrices[number].matrix)
    if bound is not None:
        yield f"its {role} lies in outside memory '{bound.name}', which is there before and after a computation"


def _table(computation: NnetComputation, role: str, declared: Table, number: int) -> Iterator[str]:
    table = getattr(computation, declared.tables)[number]
    if table.ndim != (2 if declared.columns else 1) or (declared.columns and table.shape[1] != declared.columns):
        wanted = f"(rows, {declared.columns})" if declared.columns else "(rows,)"
        yield f"its {role}, table {number}, has shape {table.shape}, expected {wanted}"
    if table.dtype.kind not in "iu":
        yield f"its {role}, table {number}, must hold integers, got {table.dtype}"


def table_problems(computation: NnetComputation) -> Iterator[str]:
    """Yields problems with the matrices, sub-matrices, inputs, outputs and outside matrices of a computation.

    As everywhere, the first problem counts: later checks rely on it.
    """
    for number, size in enumerate(computation.matrices[1:], start=1):
        if size.num_rows <= 0 or size.num_cols <= 0:
            yield f"matrix m{number} is {size.num_rows} x {size.num_cols}: it has no elements"
    yield from _submatrix_problems(computation)
    for number, info in computation.matrix_info.items():
        if not 0 < number < len(computation.matrices):
            yield f"there is information about matrix {number}, which does not exist"
        rows = computation.matrices[number].num_rows
        if info.indexes is not None and info.indexes.shape != (rows, 3):
            yield f"matrix m{number} has {rows} rows, but its indexes have shape {info.indexes.shape}"
    count = len(computation.submatrices)
    for io in (*computation.inputs, *computation.outputs):
        if not (0 < io.value < count and 0 <= io.deriv < count):
            yield f"input or output '{io.name}' is in a sub-matrix that does not exist: {io}"
    yield from _outside_problems(computation)


def _submatrix_problems(computation: NnetComputation) -> Iterator[str]:
    blocks = submatrix_table(computation)[1:]
    matrix, row, row_end, column, column_end = blocks.T
    for i in np.flatnonzero((matrix <= 0) | (matrix >= len(computation.matrices)))[:1]:
        yield f"sub-matrix {i + 1} is in matrix {matrix[i]}, which does not exist"
    sizes = matrix_sizes(computation)[matrix]
    inside = (row >= 0) & (row < row_end) & (row_end <= sizes[:, 0])
    inside &= (column >= 0) & (column < column_end) & (column_end <= sizes[:, 1])
    for i in np.flatnonzero(~inside)[:1]:
        block, size = format_submatrix(computation, i + 1), computation.matrices[matrix[i]]
        yield f"sub-matrix {i + 1}, {block}, is not inside its matrix of {size.num_rows} x {size.num_cols}"


def _outside_problems(computation: NnetComputation) -> Iterator[str]:
    names: set[str] = set()
    matrices: set[int] = set()
    for bound in computation.outside:
        if not 0 < bound.submatrix < len(computation.submatrices):
            yield f"outside memory '{bound.name}' is sub-matrix {bound.submatrix}, which does not exist"
        matrix = computation.submatrices[bound.submatrix].matrix
        if not computation.is_whole_matrix(bound.submatrix):
            block = format_submatrix(computation, bound.submatrix)
            yield f"outside memory '{bound.name}' must be a whole matrix, got {block}"
        if bound.name in names:
            yield f"two matrices lie in outside memory '{bound.name}'"
        if matrix in matrices:
            yield f"matrix m{matrix} lies in two places, one of which is outside memory '{bound.name}'"
        names.add(bound.name)
        matrices.add(matrix)
