"""Regular patterns in address lists."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from nnet3.engine.runtime.row_blocks import RowBlocks, find_blocks, find_runs
from tests.call_count import count_calls


def expand(blocks: RowBlocks) -> np.ndarray:
    """The addresses that blocks stand for, in order."""
    rows = [
        start + i * outer_stride + j * inner_stride
        for start, outer, outer_stride, inner, inner_stride in zip(
            blocks.start, blocks.outer, blocks.outer_stride, blocks.inner, blocks.inner_stride, strict=True
        )
        for i in range(outer)
        for j in range(inner)
    ]
    return np.array(rows, dtype=np.int64).reshape(len(rows), blocks.start.shape[1])


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 3)), max_size=40))
def test_blocks_cover_the_lists_in_order(rows: list[tuple[int, int]]) -> None:
    addresses = np.array(rows, dtype=np.int64).reshape(len(rows), 2)
    blocks = find_blocks(addresses)
    np.testing.assert_array_equal(expand(blocks), addresses)
    assert (blocks.inner_stride >= 0).all()
    assert (blocks.outer_stride >= 0).all()


@pytest.mark.parametrize(
    ("addresses", "num_blocks"),
    [
        pytest.param(np.arange(100), 1, id="consecutive"),
        pytest.param(np.arange(0, 100, 3), 1, id="every third"),
        pytest.param(np.full(20, 7), 1, id="one row again and again"),
        pytest.param(np.arange(60).reshape(6, 10).T.reshape(-1), 1, id="transposed"),
        pytest.param((np.arange(0, 40, 4)[:, None] + np.arange(2)).reshape(-1), 1, id="pairs apart"),
        pytest.param(np.concatenate([np.arange(5), np.arange(50, 58), np.arange(20, 23)]), 3, id="pieces"),
        pytest.param(np.arange(10)[::-1], 10, id="backwards"),
        pytest.param(np.zeros(0), 0, id="nothing"),
        pytest.param(np.array([5]), 1, id="one row"),
    ],
)
def test_number_of_blocks(addresses: np.ndarray, num_blocks: int) -> None:
    blocks = find_blocks(addresses.astype(np.int64)[:, np.newaxis])
    assert len(blocks) == num_blocks
    np.testing.assert_array_equal(expand(blocks)[:, 0], addresses)


@pytest.mark.parametrize("rare", [(1, 5), (5, 1)])
def test_the_most_frequent_stride_of_all_lists_together_counts(rare: tuple[int, int]) -> None:
    """A stride that is rare in one of two lists is rare, though it comes first and is frequent in the other."""
    addresses = np.cumsum([(0, 0), rare, *[(1, 1)] * 20], axis=0)
    assert len(find_runs(addresses, np.ones(len(addresses) - 1, bool))) == 2


def test_runs_keep_apart_what_may_not_be_joined() -> None:
    runs = find_runs(np.arange(6)[:, np.newaxis], np.array([True, True, False, True, True]))
    np.testing.assert_array_equal(runs.inner, [3, 3])
    np.testing.assert_array_equal(runs.start[:, 0], [0, 3])


def test_no_loop_over_rows() -> None:
    def calls(rows: int) -> int:
        return count_calls(find_blocks, np.random.default_rng(0).integers(0, 1000, size=(rows, 2)))

    assert calls(20_000) <= calls(200) + 10
