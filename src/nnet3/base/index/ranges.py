"""Ranges of integers in a row."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.integer]
Positions = npt.NDArray[np.int64]


def concatenate_ranges(starts: Integers | int, counts: Integers) -> Positions:
    """Returns the ranges `start, start + 1, ...`, of `count` numbers, in a row."""
    ends = np.cumsum(counts)
    return np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - (ends - counts), counts)


def entries_of_rows(offsets: Integers, rows: Integers) -> Positions:
    """Returns where the entries of rows stand in compressed sparse rows, row by row.

    The entries of row r stand from offsets[r] up to offsets[r + 1].
    """
    starts = offsets[rows]
    return concatenate_ranges(starts, offsets[np.asarray(rows) + 1] - starts)
