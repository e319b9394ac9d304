"""Operands and side tables as text, also where they do not exist."""

from __future__ import annotations

import numpy as np
import pytest

from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.formatting import format_submatrix, index_list, kernel_name, multi_list, range_list
from tests.ir.programs import index_table, multi_table, range_table
from tests.ir.toy_kernels import KERNELS


def _computation() -> tuple[NnetComputation, int]:
    c = NnetComputation(kernels=list(KERNELS))
    return c, c.new_matrix(10, 40)


@pytest.mark.parametrize(
    ("block", "text"),
    [
        ((0, 10, 0, 40), "m1"),
        ((0, 5, 0, 40), "m1(0:4, :)"),
        ((3, 1, 0, 40), "m1(3, :)"),
        ((0, 10, 20, 20), "m1(:, 20:39)"),
        ((2, 2, 39, 1), "m1(2:3, 39)"),
    ],
)
def test_blocks_have_inclusive_ranges(block: tuple[int, int, int, int], text: str) -> None:
    c, matrix = _computation()
    assert format_submatrix(c, c.new_submatrix(matrix, *block)) == text


def test_what_does_not_exist_prints() -> None:
    c, _ = _computation()
    assert format_submatrix(c, 0) == "[]"
    assert format_submatrix(c, 99) == "<no sub-matrix 99>"
    assert kernel_name(c, 99) == "<no kernel 99>"
    assert index_list(c, 3) == multi_list(c, 3) == range_list(c, 3) == "[<no table 3>]"
    c.index_tables.append(np.zeros((2, 2), np.int32))
    assert index_list(c, 0) == "[<table of shape (2, 2)>]"


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ([0, 1, 2, -1, -1, 5], "[0:2, -1x2, 5]"),
        ([-1], "[-1]"),
        ([3, 2, 1], "[3, 2, 1]"),
        ([], "[]"),
        ([7, 7], "[7, 7]"),
        (list(range(0, 40, 2)), "[0, 2, 4, 6, 8, 10, 12, 14, ... 20 rows]"),
        ([*range(0, 16, 2)], "[0, 2, 4, 6, 8, 10, 12, 14]"),
    ],
)
def test_rows_are_runs(rows: list[int], text: str) -> None:
    c, _ = _computation()
    assert index_list(c, index_table(c, rows)) == text


def test_rows_of_several_matrices() -> None:
    c, matrix = _computation()
    part = c.new_submatrix(matrix, 4, 3)
    table = multi_table(c, [(matrix, 0), (matrix, 1), (-1, -1), (-1, -1), (part, 1), (99, 0)])
    assert multi_list(c, table) == "[m1(0:1, :), -1x2, m1(5, :), <no sub-matrix 99>]"


def test_ranges_are_inclusive_and_empty_ones_a_dash() -> None:
    c, _ = _computation()
    assert range_list(c, range_table(c, [(0, 4), (2, 2), (4, 5)])) == "[0:3, -, 4]"
