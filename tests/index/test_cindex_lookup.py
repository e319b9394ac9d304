"""`CindexLookup` against a dict, and its promise of array operations that do not count rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from nnet3.base.index import NO_TIME, as_index_table
from tests.call_count import count_calls
from tests.cindex_lookup import CindexLookup

Row = tuple[int, int, int]
FAR = st.sampled_from([0, 10**9, -(10**9), NO_TIME, 2**31 - 1])
N_VALUES = st.one_of(st.just([0, 1, 2]), st.just([5]), st.just([-4, 0, 10**9]), st.just([7, 8, 9, 10]))


def rows_of(n_values: list[int], far: bool) -> st.SearchStrategy[list[Row]]:
    t = st.one_of(st.integers(-40, 40), FAR) if far else st.integers(-300, 300)
    x = st.one_of(st.integers(-2, 2), FAR) if far else st.integers(-2, 2)
    return st.lists(st.tuples(st.sampled_from(n_values), t, x), max_size=12)


@given(st.data(), st.booleans())
def test_behaves_like_a_dict(data: st.DataObject, far: bool) -> None:
    n_values = data.draw(N_VALUES)
    lookup, oracle, next_id = CindexLookup(n_values), dict[Row, int](), 0
    for _ in range(data.draw(st.integers(1, 8))):
        inserted = data.draw(rows_of(n_values, far))
        ids = list(range(next_id, next_id + len(inserted)))
        next_id += len(inserted)
        lookup.insert(as_index_table(inserted), np.array(ids, dtype=np.int32))
        oracle.update(zip(inserted, ids, strict=True))
        asked = [*data.draw(rows_of([*n_values, 3, -(2**31)], far)), *oracle]
        answer = lookup.lookup(as_index_table(asked))
        assert answer.dtype == np.int32
        assert answer.tolist() == [oracle.get(row, -1) for row in asked]


def test_an_empty_lookup_knows_nothing() -> None:
    assert CindexLookup([0, 1]).lookup(as_index_table([(0, 0), (5, 5)])).tolist() == [-1, -1]
    assert CindexLookup([]).lookup(as_index_table([(0, 0)])).tolist() == [-1]
    assert CindexLookup([0]).lookup(as_index_table([])).tolist() == []


def test_rows_just_outside_the_block_of_those_that_were_inserted() -> None:
    lookup = CindexLookup([0, 1, 2])
    block = as_index_table([(n, t, x) for n in range(3) for t in range(4) for x in range(2)])
    lookup.insert(block, np.arange(len(block), dtype=np.int32))
    outside = [(n, t, x) for n in range(-1, 4) for t in range(-1, 5) for x in range(-1, 3)]
    outside = [row for row in outside if list(row) not in block.tolist()]
    assert lookup.lookup(as_index_table(outside)).tolist() == [-1] * len(outside)


def test_scattered_times_take_little_memory() -> None:
    lookup = CindexLookup(range(100))
    table = as_index_table([(n, t) for n in range(100) for t in (0, 10**9)])
    lookup.insert(table, np.arange(200, dtype=np.int32))
    assert lookup.lookup(table).tolist() == list(range(200))


@pytest.mark.parametrize("first", [0, 5, -7])
def test_a_grid_that_becomes_too_sparse_keeps_its_ids(first: int) -> None:
    lookup = CindexLookup([0, 1])
    near = as_index_table([(n, t) for n in range(2) for t in range(first, first + 50)])
    far = as_index_table([(1, 10**9, 0), (0, -(10**9), 7)])
    lookup.insert(near, np.arange(100, dtype=np.int32))
    lookup.insert(far, np.array([100, 101], dtype=np.int32))
    assert lookup.lookup(np.concatenate([near, far])).tolist() == list(range(102))
    assert lookup.lookup(as_index_table([(0, first + 50, 0), (0, 10**9, 0), (1, 0, 7)])).tolist() == [-1, -1, -1]


def test_an_unannounced_n_is_our_own_bug() -> None:
    with pytest.raises(AssertionError, match="n_values"):
        CindexLookup([0, 2]).insert(as_index_table([(1, 0)]), np.zeros(1, dtype=np.int32))


def grow_backwards(num_n: int, stride: int) -> None:
    """Ask for and insert the rows of one more time step of each sequence, hop by hop, as a recurrent net does."""
    lookup = CindexLookup(np.arange(num_n))
    table = np.zeros((num_n, 3), dtype=np.int32)
    table[:, 0] = np.arange(num_n)
    for hop in range(50):
        table[:, 1] = -hop * stride
        assert lookup.lookup(table)[0] == -1
        lookup.insert(table, np.arange(num_n, dtype=np.int32))


@pytest.mark.parametrize("stride", [1, 10**7])
def test_the_number_of_calls_does_not_depend_on_the_number_of_sequences(stride: int) -> None:
    assert count_calls(grow_backwards, 2, stride) == count_calls(grow_backwards, 200, stride)


@pytest.mark.parametrize("column", [1, 2])
@pytest.mark.parametrize("step", [1, -1])
def test_the_grid_seldom_grows(column: int, step: int) -> None:
    lookup, row, id_of_row = CindexLookup([0]), np.zeros((1, 3), dtype=np.int32), np.zeros(1, dtype=np.int32)
    calls = []
    for hop in range(500):
        row[0, column] = hop * step
        calls.append(count_calls(lookup.insert, row, id_of_row, warm_up=False))
    growths = sum(count > min(calls) for count in calls)
    assert 0 < growths <= 10  # 2**9 > 500


def test_many_rows_are_found() -> None:
    lookup = CindexLookup(np.arange(64))
    table = np.stack(np.meshgrid(np.arange(64), np.arange(5000), [0]), axis=-1).reshape(-1, 3).astype(np.int32)
    lookup.insert(table, np.arange(len(table), dtype=np.int32))
    assert np.array_equal(lookup.lookup(table), np.arange(len(table)))
