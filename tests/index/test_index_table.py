"""Index tables against Python's own tuples: sorting, distinct rows and finding rows, extreme values included."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, strategies as st

from nnet3.base.index import (
    NO_TIME,
    as_index_table,
    distinct,
    find_rows,
    has_duplicates,
    indexes_at,
    pack_keys,
    shift_indexes,
    sort_order,
    unique_rows,
)
from nnet3.errors import RequestError

INT32 = st.one_of(
    st.integers(-3, 3), st.integers(-(2**31), 2**31 - 1), st.sampled_from([NO_TIME, -(2**31) + 1, 2**31 - 1])
)
ROWS = st.lists(st.tuples(INT32, INT32, INT32), max_size=30)
ORDERS = st.permutations("ntx").map("".join)
EXTREMES = [(a, b, c) for a in (-(2**31), 2**31 - 1, 0) for b in (2**31 - 1, -(2**31)) for c in (-(2**31), 2**31 - 1)]


def sort_key(order: str) -> Any:
    return lambda row: tuple(row["ntx".index(letter)] for letter in order)


@given(ROWS, ORDERS)
@example(EXTREMES, "txn")
def test_sort_order_sorts_like_tuples(rows: list[tuple[int, int, int]], order: str) -> None:
    table = as_index_table(rows)
    expected = sorted(range(len(rows)), key=lambda i: sort_key(order)(rows[i]))
    assert sort_order(table, order).tolist() == expected


def test_the_default_order_is_t_then_x_then_n() -> None:
    table = as_index_table([(0, 1, 0), (1, 0, 1), (0, 0, 1), (1, 0, 0), (0, 0, 0)])
    assert table[sort_order(table)].tolist() == [[0, 0, 0], [1, 0, 0], [0, 0, 1], [1, 0, 1], [0, 1, 0]]


@given(ROWS, ORDERS)
@example(EXTREMES, "xtn")
def test_keys_compare_like_rows(rows: list[tuple[int, int, int]], order: str) -> None:
    keys = pack_keys(as_index_table(rows), order).tolist()
    ordered = [sort_key(order)(row) for row in rows]
    for i in range(len(rows)):
        for j in range(len(rows)):
            assert (keys[i] < keys[j]) == (ordered[i] < ordered[j])


@given(ROWS, ORDERS)
@example(EXTREMES * 2, "nxt")
def test_unique_rows_are_sorted_and_give_the_table_back(rows: list[tuple[int, int, int]], order: str) -> None:
    table = as_index_table(rows)
    unique, inverse = unique_rows(table, order)
    assert [tuple(row) for row in unique.tolist()] == sorted(set(rows), key=sort_key(order))
    assert np.array_equal(unique[inverse], table)
    assert has_duplicates(table) == (len(set(rows)) < len(rows))


@given(ROWS, ROWS)
def test_find_rows_gives_the_first_equal_row(
    rows: list[tuple[int, int, int]], others: list[tuple[int, int, int]]
) -> None:
    queries = rows[::2] + others
    expected = [rows.index(query) if query in rows else -1 for query in queries]
    assert find_rows(as_index_table(rows), as_index_table(queries)).tolist() == expected


def test_two_columns_are_n_and_t() -> None:
    table = as_index_table([(0, 5), (1, -7)])
    assert table.tolist() == [[0, 5, 0], [1, -7, 0]]
    assert table.dtype == np.int32
    assert table.flags.c_contiguous


@pytest.mark.parametrize("empty", [[], np.zeros((0, 2)), np.zeros((0, 3), dtype=np.int32)])
def test_an_empty_table_has_three_columns(empty: Any) -> None:
    table = as_index_table(empty)
    assert table.shape == (0, 3)
    assert not has_duplicates(table)
    assert sort_order(table).tolist() == []


def test_an_int32_table_is_not_copied_and_other_layouts_become_contiguous() -> None:
    table = np.zeros((4, 3), dtype=np.int32)
    assert as_index_table(table) is table
    assert as_index_table(np.asfortranarray(np.arange(12).reshape(4, 3))).flags.c_contiguous


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ([0, 1, 2], r"expected shape \(rows, 2\) or \(rows, 3\) with columns n, t, x, got \(3,\)"),
        ([(0,), (1,)], r"got \(2, 1\)"),
        (np.zeros((2, 4), dtype=int), r"got \(2, 4\)"),
        (np.zeros((2, 3, 1), dtype=int), r"got \(2, 3, 1\)"),
        (np.zeros((0, 5), dtype=int), r"got \(0, 5\)"),
        (7, r"got \(\)"),
        ([(0, 1), (0, 1, 2)], "all of one length"),
        ([(0, 1.0)], "expected integers that fit in int32, got an array of float64"),
        ([("0", "1")], "expected integers that fit in int32"),
        ([(True, False)], "got an array of bool"),
        ([(0, 2**31)], "expected integers from -2147483648 to 2147483647, got 0 to 2147483648"),
        ([(0, -(2**31) - 1)], "got -2147483649 to 0"),
        ([(0, 2**80)], "expected integers that fit in int32"),
    ],
)
def test_bad_tables_are_refused(bad: Any, message: str) -> None:
    with pytest.raises(RequestError, match=message):
        as_index_table(bad)


def test_a_bad_table_is_named() -> None:
    with pytest.raises(RequestError, match=r"^input 'ivector': expected shape"):
        as_index_table([1, 2], where="input 'ivector'")


def test_an_unknown_order_is_our_own_bug() -> None:
    with pytest.raises(AssertionError, match="permutation"):
        sort_order(as_index_table([(0, 0)]), "tx")


def test_shifted_indexes_do_not_wrap_around() -> None:
    table = as_index_table([(0, 2**31 - 3, 0), (0, -(2**31) + 4, 5)])
    assert shift_indexes(table, 2, -5).tolist() == [[0, 2**31 - 1, -5], [0, -(2**31) + 6, 0]]
    assert table[0].tolist() == [0, 2**31 - 3, 0]
    with pytest.raises(RequestError, match="t = 2147483645 with an offset of 3 is 2147483648"):
        shift_indexes(table, 3)
    with pytest.raises(RequestError, match="t = -2147483644 with an offset of -4 is -2147483648"):
        shift_indexes(table, -4)
    with pytest.raises(RequestError, match="x = 5 with an offset of 2147483647"):
        shift_indexes(table, 0, 2**31 - 1)
    assert shift_indexes(table[:0], 2**30).shape == (0, 3)


@pytest.mark.parametrize("numbers", [[], [5], [3, 1, 3, 2, 1], [[7, 7], [0, -1]], [2**40, -(2**40), 2**40]])
def test_distinct_numbers_are_those_of_numpy(numbers: list) -> None:
    array = np.array(numbers, dtype=np.int64)
    assert distinct(array).tolist() == np.unique(array).tolist()
    assert array.tolist() == numbers, "the array stays as it is"


def test_distinct_numbers_keep_their_type() -> None:
    assert distinct(np.array([2, 1, 2], dtype=np.int32)).dtype == np.int32


@given(st.lists(INT32, max_size=30))
def test_indexes_at_times_are_of_sequence_0(times: list[int]) -> None:
    table = indexes_at(np.array(times, np.int64))
    assert table.dtype == np.int32
    assert [tuple(row) for row in table.tolist()] == [(0, t, 0) for t in times]
