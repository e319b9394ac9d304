"""The printed form of index tables, as the documentation of nnet3 shows it."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from nnet3.base.index import NO_TIME, as_index_table, format_indexes, format_time_span, format_times


@pytest.mark.parametrize(
    ("rows", "printed"),
    [
        ([(0, -1), (0, 0), (0, 1), (1, -1), (1, 0), (1, 1)], "[ (0, -1:1) (1, -1:1) ]"),
        ([], "[ ]"),
        ([(0, 5)], "[ (0, 5) ]"),
        ([(0, 1, 2), (0, 2, 2), (0, 3, 2)], "[ (0, 1:3, 2) ]"),
        ([(0, 1, 2), (0, 2, 3)], "[ (0, 1, 2) (0, 2, 3) ]"),
        ([(0, NO_TIME), (0, 3), (0, 4)], "[ (0, -) (0, 3:4) ]"),
        ([(0, NO_TIME, 1), (0, NO_TIME + 1, 1)], "[ (0, -, 1) (0, -2147483647, 1) ]"),
        ([(0, NO_TIME), (0, NO_TIME + 1)], "[ (0, -) (0, -2147483647) ]"),
        ([(0, NO_TIME), (0, NO_TIME)], "[ (0, -) (0, -) ]"),
        ([(0, 2**31 - 1), (0, NO_TIME)], "[ (0, 2147483647) (0, -) ]"),
        ([(0, 0), (1, 1), (2, 2)], "[ (0, 0) (1, 1) (2, 2) ]"),
        ([(0, 0), (0, 0), (0, 1)], "[ (0, 0) (0, 0:1) ]"),
        ([(0, 2), (0, 1), (0, 3), (0, 5)], "[ (0, 2) (0, 1) (0, 3) (0, 5) ]"),
        ([(0, 2), (1, 2), (2, 2), (0, 3), (1, 3), (2, 3)], "[ (0:2, 2:3) ]"),
        ([(0, 2), (1, 2), (0, 3), (1, 3), (0, 5), (1, 5), (0, 6)], "[ (0:1, 2:3) (0:1, 5) (0, 6) ]"),
        ([(0, NO_TIME, 0), (1, NO_TIME, 0), (1, 4, 2), (2, 4, 2)], "[ (0:1, -) (1:2, 4, 2) ]"),
    ],
)
def test_runs_of_indexes_print_as_ranges(rows: list[tuple[int, ...]], printed: str) -> None:
    assert format_indexes(as_index_table(rows)) == printed


def test_max_items_ends_with_dots_only_if_something_is_left_out() -> None:
    table = as_index_table([(n, t) for n in range(4) for t in range(3)])
    assert format_indexes(table, max_items=2) == "[ (0, 0:2) (1, 0:2) ... ]"
    assert format_indexes(table, max_items=4) == "[ (0, 0:2) (1, 0:2) (2, 0:2) (3, 0:2) ]"


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(-3, 6), st.integers(0, 1)), max_size=30))
def test_the_printed_form_reads_back_as_the_table(rows: list[tuple[int, int, int]]) -> None:
    items = format_indexes(as_index_table(rows)).strip("[ ]").replace("(", "").split(")")
    read = []
    for item in items:
        if not item.strip():
            continue
        sequences, times, *x = item.split(",")
        ranges = [(text.split(":") * 2)[:2] for text in (sequences, times)]
        every_n, every_t = (range(int(first), int(last) + 1) for first, last in ranges)
        read += [(n, t, int(x[0]) if x else 0) for t in every_t for n in every_n]
    assert read == rows


def test_format_times_ignores_n_and_x_and_order() -> None:
    table = as_index_table(
        [(1, 13, 0), (0, 12, 0), (0, 0, 0), (0, 1, 4), (0, 3, 0), (0, 2, 0), (0, 14, 0), (0, NO_TIME, 0), (1, 1, 0)]
    )
    assert format_times(table) == "(0:3, 12:14)"
    assert format_times(table, max_items=1) == "(0:3, ...)"
    assert format_times(table[:0]) == "()"


@pytest.mark.parametrize(
    ("t", "span"),
    [([3, -2, 17, 0], "t=-2..17"), ([5, 5], "t=5"), ([NO_TIME, 4, 6], "t=4..6"), ([NO_TIME], "no t"), ([], "no t")],
)
def test_format_time_span(t: list[int], span: str) -> None:
    assert format_time_span(as_index_table([(0, value) for value in t])) == span
