"""Index tables in print: `[ (0, -1:1) (1, -1:1) ]` for six Indexes of two sequences.

Consecutive rows of one n and x with t counting up are written as one item, `(n, first:last)`; x is written
only where not 0, and the t of a padding row is a dash.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from nnet3.base.index.index_table import NO_TIME, IndexTable, N, T, X, distinct

Integers = npt.NDArray[np.integer]


def format_indexes(table: IndexTable, max_items: int | None = None) -> str:
    """Formats a table as `[ (0, -1:1) (1, 5) (0:7, 2) (1, 0:3, 2) (1, -) ]`; after `max_items` items comes `...`.

    Rows that differ by one in t, or by one in n, are joined. `(0:1, 5:6)` is n = 0 and 1 at t = 5, then both at t = 6.
    """
    return " ".join(["[", *_items(table, max_items), "]"])


def format_times(table: IndexTable, max_items: int | None = None) -> str:
    """Formats the times in a table, for any n and x, as `(0:3, 12:14)`."""
    t = _times(table)
    first, last = _runs(t[1:] == t[:-1] + 1, len(t))
    items = [_range(t[i], t[j]) for i, j in zip(first[:max_items], last[:max_items], strict=True)]
    if len(items) < len(first):
        items.append("...")
    return f"({', '.join(items)})"


def format_time_span(table: IndexTable) -> str:
    """Formats the earliest and the latest time in a table: `t=-2..17`, `t=5` or `no t`."""
    t = _times(table)
    if len(t) == 0:
        return "no t"
    return f"t={t[0]}" if len(t) == 1 else f"t={t[0]}..{t[-1]}"


def _times(table: IndexTable) -> npt.NDArray[np.int64]:
    t = distinct(table[:, T]).astype(np.int64)
    return t[t != NO_TIME]


def _items(table: IndexTable, max_items: int | None) -> list[str]:
    """Returns a string for each run of rows."""
    n, t = table[:, N].astype(np.int64), table[:, T].astype(np.int64)
    by_time = (t[1:] == t[:-1] + 1) & (t[:-1] != NO_TIME) & (n[1:] == n[:-1])
    by_sequence = (n[1:] == n[:-1] + 1) & (t[1:] == t[:-1])
    same_run = (by_time | by_sequence) & (table[1:, X] == table[:-1, X])
    same_run[1:] &= ~((by_time[1:] & by_sequence[:-1]) | (by_sequence[1:] & by_time[:-1]))
    first, last = _runs(same_run, len(table))
    first_time, last_time = _runs(_goes_on(table, first, last), len(first))
    first, last = first[first_time], last[last_time]
    items = []
    for i, j in zip(first[:max_items], last[:max_items], strict=True):
        items.append(format_run(table[i], table[j]))
    if len(items) < len(first):
        items.append("...")
    return items


def format_run(first: Sequence[Any], last: Sequence[Any]) -> str:
    """Formats the rows from the index `first` to the index `last`, `(0:7, 2)`, as one item."""
    x = f", {first[X]}" if first[X] != 0 else ""
    return f"({_range(first[N], last[N])}, {_range(first[T], last[T])}{x})"


def _goes_on(table: IndexTable, first: npt.NDArray[np.intp], last: npt.NDArray[np.intp]) -> npt.NDArray[np.bool_]:
    """Returns a mask of the runs of several n that the next run repeats one time later."""
    begin, end = table[first].astype(np.int64), table[last].astype(np.int64)
    step = np.zeros(3, dtype=np.int64)
    step[T] = 1
    same = (begin[1:] == begin[:-1] + step).all(axis=1) & (end[1:] == end[:-1] + step).all(axis=1)
    return same & (end[:-1, N] > begin[:-1, N]) & (begin[:-1, T] != NO_TIME)


def _runs(same_run: npt.NDArray[np.bool_], rows: int) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Returns the first and the last row of each run; rows i and i + 1 are in one run where `same_run[i]`."""
    if rows == 0:
        return np.zeros(0, dtype=np.intp), np.zeros(0, dtype=np.intp)
    cuts = np.flatnonzero(~same_run)
    return np.concatenate([[0], cuts + 1]), np.concatenate([cuts, [rows - 1]])


def _range(first: Any, last: Any) -> str:
    if first == NO_TIME:
        return "-"
    return f"{first}" if first == last else f"{first}:{last}"
