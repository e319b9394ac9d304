"""Declaring matrices, blocks and tables."""

from __future__ import annotations

import numpy as np
import pytest

from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.program_tables import SubMatrix


def test_blocks_of_blocks() -> None:
    c = NnetComputation()
    whole = c.new_matrix(10, 40)
    block = c.new_submatrix(whole, 2, 6, 20)
    assert c.submatrices[block] == SubMatrix(1, 2, 6, 20, 20)
    inner = c.new_submatrix(block, 1, 2, 5, 10)
    assert c.submatrices[inner] == SubMatrix(1, 3, 2, 25, 10)
    assert c.is_whole_matrix(whole)
    assert not c.is_whole_matrix(block)


def test_equal_blocks_are_one() -> None:
    c = NnetComputation()
    whole = c.new_matrix(10, 40)
    block = c.new_submatrix(whole, 2, 6)
    assert c.new_submatrix(whole) == whole
    assert c.new_submatrix(whole, 2, 6, 0, 40) == block
    assert c.find_or_add(SubMatrix(1, 2, 6, 0, 40)) == block
    other = c.new_matrix(10, 40)
    assert c.new_submatrix(other, 2, 6) not in (block, whole, other)


def test_equal_tables_are_one() -> None:
    computation = NnetComputation()
    rows, other = np.array([1, 0, -1]), np.array([1, 0, 2])
    assert [computation.new_index_table(each) for each in (rows, other, rows.astype(np.int32))] == [0, 1, 0]
    assert [computation.new_multi_table(np.array([[1, 0]])), computation.new_range_table(np.array([[1, 0]]))] == [0, 0]
    copy = computation.copy()
    assert [copy.new_index_table(each) for each in (other, np.array([3]), rows)] == [1, 2, 0]
    assert [len(each.index_tables) for each in (copy, computation)] == [3, 2]


@pytest.mark.parametrize("block", [(5, 6), (-1, 2), (0, 2, 38, 3), (0, 2, -1, 3)])
def test_blocks_outside_of_a_matrix_are_refused(block: tuple[int, ...]) -> None:
    c = NnetComputation()
    with pytest.raises(AssertionError, match="range outside the sub-matrix"):
        c.new_submatrix(c.new_matrix(10, 40), *block)
