"""Parts of the shape rules of commands. A rule yields problems; operands exist when it is asked.

Operands are given by name, for the message: `same_shape(computation, dest=3, source=4)`. A rule may rely on its own
earlier checks: callers take one problem at a time and stop at the first.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nnet3.engine.ir.formatting import format_submatrix
from nnet3.engine.ir.program_tables import ProgramTables, SubMatrix

Problems = Iterator[str]


def any_sizes(command: object, computation: ProgramTables) -> Problems:
    """The rule of a class whose operands may have any sizes: `problems = any_sizes`."""
    return iter(())


def same_shape(computation: ProgramTables, **operands: int) -> Problems:
    """Two operands must have equal sizes."""
    (name, rows, cols), (other_name, other_rows, other_cols) = _sizes(computation, operands)
    if (rows, cols) != (other_rows, other_cols):
        yield f"its {name} is {rows} x {cols}, its {other_name} {other_rows} x {other_cols}; they must be equal"


def same_columns(computation: ProgramTables, **operands: int) -> Problems:
    """Two operands must have equally many columns."""
    (name, _, cols), (other_name, _, other_cols) = _sizes(computation, operands)
    if cols != other_cols:
        yield f"its {name} has {cols} columns, its {other_name} {other_cols}; they must be equal"


def same_rows(computation: ProgramTables, **operands: int) -> Problems:
    """Two operands must have equally many rows."""
    (name, rows, _), (other_name, other_rows, _) = _sizes(computation, operands)
    if rows != other_rows:
        yield f"its {name} has {rows} rows, its {other_name} {other_rows}; they must be equal"


def _sizes(computation: ProgramTables, operands: dict[str, int]) -> list[tuple[str, int, int]]:
    blocks = [(name, computation.submatrices[number]) for name, number in operands.items()]
    return [(name, block.num_rows, block.num_cols) for name, block in blocks]


def one_entry_a_row(computation: ProgramTables, kind: str, table: np.ndarray, **operand: int) -> Problems:
    """A side table must have one entry for each row of the operand."""
    ((name, rows, _),) = _sizes(computation, operand)
    if len(table) != rows:
        yield f"its {kind} table has {len(table)} entries, its {name} {rows} rows; they must be equal"


def rows_exist(computation: ProgramTables, indexes: np.ndarray, source: int) -> Problems:
    """Row numbers must be rows of the source, or -1."""
    rows = computation.submatrices[source].num_rows
    for i in np.flatnonzero((indexes < -1) | (indexes >= rows))[:1]:
        yield f"entry {i} of its index table is row {indexes[i]}, expected -1 to {rows - 1}"


def ranges_exist(computation: ProgramTables, ranges: np.ndarray, source: int) -> Problems:
    """Ranges [first, end) must be rows of the source."""
    rows = computation.submatrices[source].num_rows
    first, end = ranges.T
    for i in np.flatnonzero((first < 0) | (first > end) | (end > rows))[:1]:
        yield f"entry {i} of its range table is [{first[i]}, {end[i]}), expected 0 <= first <= end <= {rows}"


def rows_of_submatrices(computation: ProgramTables, number: int, **operand: int) -> Problems:
    """A multi table must have, for each row of the operand, an existing row of a sub-matrix as wide, or (-1, -1)."""
    table = computation.multi_tables[number]
    yield from one_entry_a_row(computation, "row", table, **operand)
    ((name, _, cols),) = _sizes(computation, operand)
    sub, row = table.T
    known = (sub > 0) & (sub < len(computation.submatrices))
    for i in np.flatnonzero(~known & ~((sub == -1) & (row == -1)))[:1]:
        yield f"entry {i} of its row table is ({sub[i]}, {row[i]}), expected a sub-matrix and a row, or (-1, -1)"
    distinct, inverse = np.unique(sub, return_inverse=True)
    blocks = [computation.submatrices[s] for s in distinct.tolist()]
    num_rows, num_cols = np.array([(b.num_rows, b.num_cols) for b in blocks], dtype=np.int64).reshape(-1, 2)[inverse].T
    for i in np.flatnonzero(known & ((row < 0) | (row >= num_rows)))[:1]:
        shown = format_submatrix(computation, sub[i])
        yield f"entry {i} of its row table is row {row[i]} of {shown}, which has {num_rows[i]}"
    for i in np.flatnonzero(known & (num_cols != cols))[:1]:
        shown = format_submatrix(computation, sub[i])
        yield f"entry {i} of its row table is in {shown} with {num_cols[i]} columns; its {name} has {cols}"


def no_row_twice(computation: ProgramTables, number: int) -> Problems:
    """No two entries of a multi table may name the same row, or overlapping parts of a row."""
    table = computation.multi_tables[number]
    entries = np.flatnonzero(table[:, 0] != -1)
    distinct, inverse = np.unique(table[entries, 0], return_inverse=True)
    blocks = [computation.submatrices[s] for s in distinct.tolist()]
    origin = np.array([(b.matrix, b.row_offset, b.col_offset, b.num_cols) for b in blocks], dtype=np.int64)
    origin = origin.reshape(-1, 4)[inverse]
    row = origin[:, 1] + table[entries, 1]
    # All parts are equally wide, so among parts of one row any that overlap are neighbours by first column.
    order = np.lexsort((origin[:, 2], row, origin[:, 0]))
    same_row = (np.diff(origin[order, 0]) == 0) & (np.diff(row[order]) == 0)
    twice = same_row & (np.diff(origin[order, 2]) < origin[order, 3][:-1])
    for i in np.flatnonzero(twice)[:1]:
        first, second = sorted((entries[order[i]], entries[order[i + 1]]))
        yield f"entries {first} and {second} of its row table name the same row; a scatter must not name a row twice"


def overlap(a: SubMatrix, b: SubMatrix) -> bool:
    """Tells whether two sub-matrices have an element in common."""
    return (
        a.matrix == b.matrix
        and max(a.row_offset, b.row_offset) < min(a.row_offset + a.num_rows, b.row_offset + b.num_rows)
        and max(a.col_offset, b.col_offset) < min(a.col_offset + a.num_cols, b.col_offset + b.num_cols)
    )
