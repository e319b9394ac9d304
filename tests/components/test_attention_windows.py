"""Windows of attention against a dictionary from index to row, for arbitrary sets of rows."""

from __future__ import annotations

import numpy as np
from hypothesis import given, strategies as st

from nnet3.components.attention_windows import AttentionWindows, attention_windows
from nnet3.components.base import load_fields
from nnet3.index import unique_rows

INDEXES = st.sets(st.tuples(st.integers(0, 1), st.integers(-9, 140), st.integers(0, 1)), min_size=1, max_size=30)


@given(
    outputs=INDEXES,
    stride=st.integers(1, 3),
    left=st.integers(0, 2),
    right=st.integers(0, 2),
    heads=st.integers(1, 2),
    missing=st.lists(st.booleans(), min_size=150, max_size=150),
)
def test_queries_find_their_context(
    outputs: set[tuple[int, int, int]], stride: int, left: int, right: int, heads: int, missing: list[bool]
) -> None:
    steps = range(-left, right + 1)
    wanted = [(n, t + step * stride, x) for n, t, x in sorted(outputs) for step in steps]
    inputs, _ = unique_rows(
        np.array([w for w, drop in zip(wanted, missing, strict=False) if not drop] or wanted, np.int32)
    )
    table = np.array(sorted(outputs), np.int32)
    arrays = attention_windows(inputs, table, heads, stride, left, len(steps))
    windows = AttentionWindows(**load_fields(arrays, "cpu"))

    row_of = {tuple(index): row for row, index in enumerate(inputs.tolist())}
    is_missing = np.zeros(len(windows.row_of_position), bool)
    is_missing[windows.missing.numpy()] = True
    used = np.flatnonzero(~is_missing)
    assert len(np.unique(windows.query_of_row)) == len(table) * heads
    for row, (n, t, x) in enumerate(table.tolist()):
        for head in range(heads):
            window, query = divmod(int(windows.query_of_row[row * heads + head]), windows.num_queries)
            assert window % heads == head
            for o, step in enumerate(steps):
                place = window * windows.num_positions + query * windows.query_step + o
                source = row_of.get((n, t + step * stride, x))
                assert is_missing[place] == (source is None)
                if source is not None:
                    assert windows.row_of_position[place] == source * heads + head
    places = windows.row_of_position.numpy()[used]
    assert windows.is_permutation == (
        len(used) == len(is_missing) and sorted(places) == list(range(len(inputs) * heads))
    )
