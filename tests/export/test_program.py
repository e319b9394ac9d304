"""Tables as runs of rows, and programs of which they are."""

from __future__ import annotations

import numpy as np
from hypothesis import given, strategies as st

from nnet3.export.program import row_patterns


@given(st.lists(st.integers(-1, 12), min_size=1, max_size=20))
def test_runs_are_the_rows_in_their_order(rows: list[int]) -> None:
    written = []
    for run in row_patterns(np.array(rows)):
        assert isinstance(run.iterations, int)
        written += [run.first[0] + iteration * run.step[0] for iteration in range(run.iterations)]
        assert run.first[0] >= 0 or run.step == (0,)
    assert written == rows


def test_long_runs_are_one() -> None:
    rows = np.concatenate([np.arange(50), np.full(20, 7), np.full(9, -1), np.arange(80, 20, -3)])
    assert [(*run.first, *run.step, run.iterations) for run in row_patterns(rows)] == [
        (0, 1, 50), (7, 0, 20), (-1, 0, 9), (80, -3, 20),
    ]  # fmt: skip
