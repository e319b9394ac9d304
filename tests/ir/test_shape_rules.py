"""Parts of shape rules: silent where operands fit, one sentence where they do not."""

from __future__ import annotations

import numpy as np
import pytest

from nnet3.engine.ir import shape_rules
from nnet3.engine.ir.computation import NnetComputation
from tests.ir.programs import multi_table


@pytest.fixture
def c() -> NnetComputation:
    """Sub-matrices 1: 4 x 6; 2: 4 x 3; 3: 5 x 6; 4: rows 1 and 2 of the first."""
    computation = NnetComputation()
    for rows, cols in ((4, 6), (4, 3), (5, 6)):
        computation.new_matrix(rows, cols)
    computation.new_submatrix(1, 1, 2)
    return computation


@pytest.mark.parametrize(
    ("rule", "operands", "message"),
    [
        (shape_rules.same_shape, (1, 1), None),
        (shape_rules.same_shape, (1, 2), "its dest is 4 x 6, its source 4 x 3; they must be equal"),
        (shape_rules.same_columns, (1, 3), None),
        (shape_rules.same_columns, (1, 2), "its dest has 6 columns, its source 3; they must be equal"),
        (shape_rules.same_rows, (1, 2), None),
        (shape_rules.same_rows, (1, 3), "its dest has 4 rows, its source 5; they must be equal"),
    ],
)
def test_rules_of_two_operands_say_what_is_wrong(
    c: NnetComputation, rule, operands: tuple[int, int], message: str | None
) -> None:
    found = list(rule(c, dest=operands[0], source=operands[1]))
    assert found == ([] if message is None else [message])


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([0, -1, 3], None),
        ([0, 4], "entry 1 of its index table is row 4, expected -1 to 3"),
        ([-2, 9], "entry 0 of its index table is row -2, expected -1 to 3"),
    ],
)
def test_rows_must_exist(c: NnetComputation, rows: list[int], message: str | None) -> None:
    assert list(shape_rules.rows_exist(c, np.array(rows), 1)) == ([] if message is None else [message])


@pytest.mark.parametrize(
    ("ranges", "message"),
    [
        ([(0, 4), (2, 2)], None),
        ([(0, 4), (3, 2)], "entry 1 of its range table is [3, 2), expected 0 <= first <= end <= 4"),
        ([(0, 5)], "entry 0 of its range table is [0, 5), expected 0 <= first <= end <= 4"),
    ],
)
def test_ranges_must_exist(c: NnetComputation, ranges: list[tuple[int, int]], message: str | None) -> None:
    assert list(shape_rules.ranges_exist(c, np.array(ranges), 1)) == ([] if message is None else [message])


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([(1, 0), (-1, -1), (4, 1), (3, 4)], None),
        ([(1, 0)], "its row table has 1 entries, its dest 4 rows; they must be equal"),
        ([(1, 0), (9, 0), (1, 1), (1, 2)], "entry 1 of its row table is (9, 0), expected a sub-matrix and a row"),
        ([(1, 0), (1, 4), (1, 1), (1, 2)], "entry 1 of its row table is row 4 of m1, which has 4"),
        ([(1, 0), (2, 0), (1, 1), (1, 2)], "entry 1 of its row table is in m2 with 3 columns; its dest has 6"),
    ],
)
def test_rows_of_submatrices(c: NnetComputation, pairs: list[tuple[int, int]], message: str | None) -> None:
    first = next(shape_rules.rows_of_submatrices(c, multi_table(c, pairs), dest=1), None)
    assert (first is None) if message is None else (first is not None and first.startswith(message))


@pytest.mark.parametrize(
    ("pairs", "entries"),
    [
        ([(1, 0), (1, 1), (-1, -1), (-1, -1)], None),
        ([(1, 1), (3, 1), (4, 1)], None),
        ([(3, 0), (1, 2), (4, 1)], (1, 2)),
        ([(1, 0), (1, 0)], (0, 1)),
    ],
)
def test_no_row_twice(c: NnetComputation, pairs: list[tuple[int, int]], entries: tuple[int, int] | None) -> None:
    found = list(shape_rules.no_row_twice(c, multi_table(c, pairs)))
    assert bool(found) == (entries is not None)
    if entries is not None:
        assert found[0].startswith(f"entries {entries[0]} and {entries[1]} of its row table name the same row")


def test_sub_matrices_that_share_elements_overlap(c: NnetComputation) -> None:
    left, right = (c.submatrices[c.new_submatrix(1, 0, 4, col, 3)] for col in (0, 3))
    whole, other, rows = c.submatrices[1], c.submatrices[3], c.submatrices[4]
    assert shape_rules.overlap(left, rows)
    assert shape_rules.overlap(whole, right)
    assert not shape_rules.overlap(left, right)
    assert not shape_rules.overlap(whole, other)
