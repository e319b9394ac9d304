"""Operands and side tables as text: `m1(0:9, 20:39)`, `[0:11, -1x4]`.

Ranges are inclusive, as in `m1(0:9, :)` for the first ten rows of m1. Long lists are cut, with their length after the
dots. What does not exist still prints, so that the checker can show a broken command.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from nnet3.ir.computation import NnetComputation

MAX_ITEMS = 8  # of an index list


def format_submatrix(computation: NnetComputation, number: int) -> str:
    """Returns `m3` for a whole matrix, `m3(0:9, 20:39)` for a block of it, `[]` for the empty sub-matrix.

    One that moves down four rows in each turn i of a Repeat is `m3(0:9 + 4i, :)`.
    """
    if number == 0:
        return "[]"
    if not 0 < number < len(computation.submatrices):
        return f"<no sub-matrix {number}>"
    block = computation.submatrices[number]
    return _block(computation, number, range(block.row_offset, block.row_offset + block.num_rows))


def _block(computation: NnetComputation, number: int, rows: range) -> str:
    """Formats these rows of the matrix with the columns of sub-matrix `number`."""
    block = computation.submatrices[number]
    if not 0 <= block.matrix < len(computation.matrices):
        return f"<no matrix {block.matrix}>"
    matrix = computation.matrices[block.matrix]
    columns = range(block.col_offset, block.col_offset + block.num_cols)
    row_text, column_text = _range(rows, matrix.num_rows), _range(columns, matrix.num_cols)
    if number in computation.turns:
        row_text += " in turn 0"
    if block.row_step:
        row_text += f" {'-' if block.row_step < 0 else '+'} {abs(block.row_step) if abs(block.row_step) > 1 else ''}i"
    if row_text == column_text == ":":
        return f"m{block.matrix}"
    return f"m{block.matrix}({row_text}, {column_text})"


def _range(numbers: range, size: int) -> str:
    if numbers == range(size):
        return ":"
    return _run(numbers.start, numbers.stop - 1)


def _run(first: int, last: int) -> str:
    return f"{first}" if first == last else f"{first}:{last}"


# ---- side tables ----


def index_list(computation: NnetComputation, table: int) -> str:
    """Formats row numbers as runs that count up and runs of -1: `[0:11, -1x4]`."""
    rows = _table(computation.index_tables, table, 1)
    if isinstance(rows, str):
        return rows
    goes_on = np.where(rows[:-1] == -1, rows[1:] == -1, rows[1:] == rows[:-1] + 1)
    items = (_run(rows[i], rows[j]) if rows[i] != -1 else _nothing(j - i + 1) for i, j in _runs(goes_on, len(rows)))
    return _elided(items, len(rows))


def multi_list(computation: NnetComputation, table: int) -> str:
    """Formats rows of sub-matrices: `[m17(0:3, :), -1x2]`."""
    pairs = _table(computation.multi_tables, table, 2)
    if isinstance(pairs, str):
        return pairs
    sub, row = pairs[:, 0], pairs[:, 1]
    goes_on = (sub[1:] == sub[:-1]) & ((sub[:-1] == -1) | (row[1:] == row[:-1] + 1))
    items = (_multi_item(computation, sub[i], row[i], row[j], j - i + 1) for i, j in _runs(goes_on, len(sub)))
    return _elided(items, len(sub))


def _multi_item(computation: NnetComputation, sub: int, first: int, last: int, length: int) -> str:
    if sub == -1:
        return _nothing(length)
    if not 0 < sub < len(computation.submatrices):
        return format_submatrix(computation, sub)
    start = computation.submatrices[sub].row_offset
    return _block(computation, sub, range(start + first, start + last + 1))


def range_list(computation: NnetComputation, table: int) -> str:
    """Formats row ranges, with a dash for an empty one: `[0:3, -, 4]`."""
    ranges = _table(computation.range_tables, table, 2)
    if isinstance(ranges, str):
        return ranges
    return _elided((_run(first, end - 1) if first != end else "-" for first, end in ranges), len(ranges))


def _table(tables: Sequence[np.ndarray], number: int, dimensions: int) -> np.ndarray | str:
    """Returns the table as int64, or what to print in its place unless it exists and has so many dimensions."""
    if not 0 <= number < len(tables):
        return f"[<no table {number}>]"
    if tables[number].ndim != dimensions:
        return f"[<table of shape {tables[number].shape}>]"
    return tables[number].astype(np.int64)


def _nothing(times: int) -> str:
    return "-1" if times == 1 else f"-1x{times}"


def _runs(goes_on: np.ndarray, length: int) -> Iterator[tuple[int, int]]:
    """Yields the first and last position of each run; `goes_on[i]` says that i and i + 1 are in one run."""
    if length == 0:
        return iter(())
    cuts = np.flatnonzero(~goes_on)
    return zip([0, *(cuts[:MAX_ITEMS] + 1).tolist()], [*cuts[: MAX_ITEMS + 1].tolist(), length - 1], strict=False)


def _elided(items: Iterator[str], length: int) -> str:
    shown = [item for item, _ in zip(items, range(MAX_ITEMS + 1), strict=False)]
    if len(shown) > MAX_ITEMS:
        shown[-1] = f"... {length} rows"
    return f"[{', '.join(shown)}]"


def kernel_name(computation: NnetComputation, kernel: int) -> str:
    return computation.kernels[kernel].name if 0 <= kernel < len(computation.kernels) else f"<no kernel {kernel}>"


def submatrix_list(computation: NnetComputation, numbers: Sequence[int], reference: str = "") -> str:
    """Formats one or several operands; `reference` marks those that are filled."""
    names = [(reference if number else "") + format_submatrix(computation, number) for number in numbers]
    return names[0] if len(names) == 1 else f"({', '.join(names)})"


def notes(*notes: str) -> str:
    kept = [note for note in notes if note]
    return f" [{', '.join(kept)}]" if kept else ""
