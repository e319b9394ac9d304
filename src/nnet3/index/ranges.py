"""Ranges of integers, one after the other."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.integer]
Positions = npt.NDArray[np.int64]


def concatenate_ranges(starts: Integers | int, counts: Integers) -> Positions:
    """Returns `start, start + 1, ...`, count numbers for each pair, one after the other."""
    ends = np.cumsum(counts)
    return np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - (ends - counts), counts)


def entries_of_rows(offsets: Integers, rows: Integers) -> Positions:
    """Returns where the entries of these rows stand in compressed sparse rows, row by row.

    Those of row r are the ones from offsets[r] up to offsets[r + 1].
    """
    starts = offsets[rows]
    return concatenate_ranges(starts, offsets[np.asarray(rows) + 1] - starts)
