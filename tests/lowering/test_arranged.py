"""Rows in the order of a kernel: members of classes side by side, or a refusal."""

from __future__ import annotations

import numpy as np
import pytest

from nnet3.base.index import NO_TIME, as_index_table
from nnet3.engine.lowering.arranged import NotInBlocks, _follow, _follow_in_pairs
from nnet3.engine.lowering.graph import NO_ITEM

ITEMS = np.array([10, 11, 12])
A, B, C = ([(n, t, 0) for n in (0, 5)] for t in range(3))  # two members of a class at each time
PADDING = [(0, NO_TIME, 0), (5, NO_TIME, 0)]
TABLE = as_index_table([*A, *B, *C])


@pytest.mark.parametrize(
    ("ordered", "items"),
    [
        ([*A, *B, *C], [10, 11, 12]),
        ([*C, *A, *B], [12, 10, 11]),
        ([*A, *PADDING, *C, *PADDING, *B], [10, NO_ITEM, 12, NO_ITEM, 11]),
        ([*B], [11]),
        ([], []),
    ],
)
def test_members_side_by_side(ordered: list[tuple[int, int, int]], items: list[int]) -> None:
    table = as_index_table(ordered) if ordered else TABLE[:0]
    assert _follow_in_pairs(ITEMS, TABLE, table).tolist() == items
    assert _follow(ITEMS, TABLE[::2], table[::2]).tolist() == items


@pytest.mark.parametrize(
    "ordered",
    [
        [A[0], B[0], A[1], B[1]],
        [*A, *B, C[0]],
        [A[1], A[0], *B, *C],
        [A[0], B[1], B[0], A[1]],
        [*A, B[0], PADDING[1], *C],
        [*A, PADDING[0], B[1], *C],
    ],
)
def test_members_that_are_apart_are_refused(ordered: list[tuple[int, int, int]]) -> None:
    with pytest.raises(NotInBlocks):
        _follow_in_pairs(ITEMS, TABLE, as_index_table(ordered))
