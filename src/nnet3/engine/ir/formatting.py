"""Operands and side tables as text: `m1(0:9, 20:39)`, `[0:11, -1x4]`.

Ranges are inclusive, as in `m1(0:9, :)` for the first ten rows of m1. Long lists are cut, with the full length after
the dots; with `full` everything is written, so that `reading` can read the text. Missing objects still print, so that
the checker can show a broken command. Numbers of rows may depend on parameters, as in `m1(0:N - 1, :)`; then tables are
nests.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from nnet3.base.index import format_indexes, format_run
from nnet3.engine.ir.nests import MAX_ITEMS, Nest, Row, Run
from nnet3.engine.ir.program_tables import ProgramTables


def format_submatrix(computation: ProgramTables, number: int, full: bool = False) -> str:
    """Returns `m3` for a whole matrix, `m3(0:9, 20:39)` for a block, `[]` for the empty sub-matrix.

    A sub-matrix that moves down four rows in each iteration i of a Repeat is `m3(0:9 + 4i, :)`. A sub-matrix that moves
    unevenly is `m3(0:9 in iteration 0, :)`, or in full `m3(0:9 then 10:14 then 15:16, :)`.
    """
    if number == 0:
        return "[]"
    if not 0 < number < len(computation.submatrices):
        return f"<no sub-matrix {number}>"
    block = computation.submatrices[number]
    return _block(computation, number, block.row_offset, block.num_rows, full)


def _block(computation: ProgramTables, number: int, first: Any, num_rows: Any, full: bool = False) -> str:
    """Formats these rows of the matrix with the columns of sub-matrix `number`."""
    block = computation.submatrices[number]
    if not 0 <= block.matrix < len(computation.matrices):
        return f"<no matrix {block.matrix}>"
    matrix = computation.matrices[block.matrix]
    row_text = _range(first, num_rows, matrix.num_rows)
    column_text = _range(block.col_offset, block.num_cols, matrix.num_cols)
    if number in computation.iterations:
        later = computation.iterations[number][1:].tolist()
        row_text += "".join(f" then {_run(a, a + n - 1)}" for a, n in later) if full else " in iteration 0"
    if block.row_step != 0:
        row_text += _times_iteration(str(block.row_step))
    if row_text == column_text == ":":
        return f"m{block.matrix}"
    return f"m{block.matrix}({row_text}, {column_text})"


def _times_iteration(step: str) -> str:
    """Formats what is added in iteration i, ` + 4i`."""
    if " " in step:
        return f" + ({step})i"
    size = step.removeprefix("-")
    return f" {'+' if size == step else '-'} {'' if size == '1' else size}i"


def _range(first: Any, count: Any, size: Any) -> str:
    return ":" if first == 0 and count == size else _run(first, first + count - 1)


def _run(first: Any, last: Any) -> str:
    return f"{first}" if first == last else f"{first}:{last}"


def index_table(table: np.ndarray | Nest, full: bool = False) -> str:
    """Formats the indexes of the rows of a matrix."""
    if not isinstance(table, Nest):
        return format_indexes(table, None if full else MAX_ITEMS)
    runs, is_all = table.runs(_same_box)
    items = [format_run(run.first, run.last) for run in runs[:MAX_ITEMS]]
    return " ".join(["[", *items, *([] if is_all and len(runs) <= MAX_ITEMS else ["..."]), "]"])


def _same_box(one: Run, other: Run) -> bool:
    """True if run `other` continues `one`: in time with equal sequences, or in sequences with equal times.

    Parameters in place of n, t and x are allowed: an answer free of parameters holds for all their values.
    """
    (n, t, x), (last_n, last_t, _) = one.first, one.last
    (next_n, next_t, next_x), (next_last_n, next_last_t, _) = other.first, other.last
    by_time = next_t == last_t + 1 and n == next_n and last_n == next_last_n
    by_sequence = next_n == last_n + 1 and t == last_t == next_t == next_last_t
    return x == next_x and (by_time or by_sequence)


# ---- side tables ----


def index_list(computation: ProgramTables, table: int, full: bool = False) -> str:
    """Formats row numbers as runs that count up and runs of -1: `[0:11, -1x4]`."""
    return _listed(
        computation.index_tables,
        table,
        1,
        lambda run: _nothing(run.count) if run.first[0] == -1 else _run(run.first[0], run.last[0]),
        full=full,
    )


def multi_list(computation: ProgramTables, table: int, full: bool = False) -> str:
    """Formats rows of sub-matrices: `[m17(0:3, :), -1x2]`, in full as rows of the sub-matrix: `m17(0:9, :)[0:3]`."""
    return _listed(computation.multi_tables, table, 2, lambda run: _multi_item(computation, run, full), full=full)


def _multi_item(computation: ProgramTables, run: Run, full: bool) -> str:
    sub, first = run.first
    if sub == -1:
        return _nothing(run.count)
    if not 0 < sub < len(computation.submatrices):
        return format_submatrix(computation, sub)
    block = computation.submatrices[sub]
    if full:
        rows = "" if (first, run.count) == (0, block.num_rows) else f"[{_run(first, run.last[1])}]"
        return format_submatrix(computation, sub, full) + rows
    return _block(computation, sub, block.row_offset + first, run.count)


def range_list(computation: ProgramTables, table: int, full: bool = False) -> str:
    """Formats row ranges, with a dash for an empty one: `[0:3, -, 4]`."""
    return _listed(
        computation.range_tables,
        table,
        2,
        lambda run: _run(run.first[0], run.first[1] - 1) if run.first[0] != run.first[1] else "-",
        has_runs=False,
        full=full,
    )


#: The formatters of side tables, by the list that holds the tables.
TABLE_FORMATS = {"index_tables": index_list, "multi_tables": multi_list, "range_tables": range_list}


def _listed(
    tables: Sequence[np.ndarray | Nest],
    number: int,
    dimensions: int,
    item: Callable[[Run], str],
    has_runs: bool = True,
    full: bool = False,
) -> str:
    """Formats the runs of a table, or says that the table is missing or has another number of dimensions."""
    if not 0 <= number < len(tables):
        return f"[<no table {number}>]"
    table = tables[number]
    if isinstance(table, Nest):
        runs, is_all = table.runs(lambda one, other: has_runs and _counts_on(one.last, other.first))
        return _elided(map(item, runs), table.num_rows, is_all)
    if table.ndim != dimensions:
        return f"[<table of shape {table.shape}>]"
    rows = table.astype(np.int64).reshape(len(table), math.prod(table.shape[1:]))
    same, last = (rows[1:, :-1] == rows[:-1, :-1]).all(axis=1), rows[:, -1]
    goes_on = has_runs & same & (last[1:] == np.where(last[:-1] == -1, -1, last[:-1] + 1))
    runs_of_rows = (Run(tuple(rows[i]), tuple(rows[j]), j - i + 1) for i, j in _runs(goes_on, len(rows), full))
    return f"[{', '.join(map(item, runs_of_rows))}]" if full else _elided(map(item, runs_of_rows), len(rows))


def _counts_on(row: Row, other: Row) -> bool:
    """True if `other` has the last number of `row` plus one, or both have none, and all further numbers are equal."""
    return other == (*row[:-1], row[-1] if row[-1] == -1 else row[-1] + 1)


def _nothing(times: Any) -> str:
    return "-1" if times == 1 else f"-1x{times}"


def _runs(goes_on: np.ndarray, length: int, full: bool) -> Iterator[tuple[int, int]]:
    """Yields the first and last position of each run, of the first runs only unless `full`.

    `goes_on[i]`: positions i and i + 1 are in one run.
    """
    if length == 0:
        return iter(())
    cuts = np.flatnonzero(~goes_on)
    most = len(cuts) if full else MAX_ITEMS
    return zip([0, *(cuts[:most] + 1).tolist()], [*cuts[: most + 1].tolist(), length - 1], strict=False)


def _elided(items: Iterable[str], length: Any, is_all: bool = True) -> str:
    shown = [item for item, _ in zip(items, range(MAX_ITEMS + 1), strict=False)]
    if len(shown) > MAX_ITEMS or not is_all:
        shown[MAX_ITEMS:] = [f"... {length} rows"]
    return f"[{', '.join(shown)}]"


WORD = r"(?:[\w.+/@-]|\[[\w:.,]*\])+"  # a name that stands in a full text without quotes


def written_name(name: str, full: bool, quoted: bool = False) -> str:
    """Formats a name, in full with quotes unless it is a word."""
    if full and (quoted or not re.fullmatch(WORD, name)):
        return repr(name)
    return f"'{name}'" if quoted else name


def kernel_name(computation: ProgramTables, kernel: int, full: bool = False) -> str:
    """Formats the name of a kernel; in full, the second kernel of a name is `affine#2`."""
    if not 0 <= kernel < len(computation.kernels):
        return f"<no kernel {kernel}>"
    name = computation.kernels[kernel].name
    before = sum(other.name == name for other in computation.kernels[:kernel]) if full else 0
    return written_name(name, full) + (f"#{before + 1}" if before else "")
