"""Ranges of integers against Python's own."""

from __future__ import annotations

import numpy as np
from hypothesis import given, strategies as st

from nnet3.base.index import concatenate_ranges, entries_of_rows


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 4))))
def test_ranges_one_after_the_other(ranges: list[tuple[int, int]]) -> None:
    starts, counts = np.array(ranges, dtype=np.int64).reshape(-1, 2).T
    expected = [number for start, count in ranges for number in range(start, start + count)]
    assert concatenate_ranges(starts, counts).tolist() == expected


@given(st.lists(st.integers(0, 4), min_size=1), st.lists(st.integers(0, 100), max_size=6))
def test_the_entries_of_rows(lengths: list[int], picks: list[int]) -> None:
    offsets = np.cumsum([0, *lengths])
    rows = [pick % len(lengths) for pick in picks]
    expected = [entry for row in rows for entry in range(offsets[row], offsets[row + 1])]
    assert entries_of_rows(offsets, np.array(rows, dtype=int)).tolist() == expected
