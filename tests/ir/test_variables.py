"""Variables: every sub-matrix that made cuts is the union of its own; others are covered."""

from __future__ import annotations

import numpy as np
from hypothesis import given, strategies as st

from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.variables import Variables, matrix_sizes, submatrix_table

SIZES = ((6, 4), (3, 5))


@st.composite
def blocks(draw: st.DrawFn) -> tuple[int, int, int, int, int]:
    matrix = draw(st.integers(0, 1))
    rows, cols = SIZES[matrix]
    row, col = draw(st.integers(0, rows - 1)), draw(st.integers(0, cols - 1))
    return matrix + 1, row, draw(st.integers(1, rows - row)), col, draw(st.integers(1, cols - col))


def _variables(given_blocks: list[tuple[int, int, int, int, int]]) -> tuple[NnetComputation, Variables, list[int]]:
    """Returns also the number of the sub-matrix that each block is: equal blocks are one."""
    c = NnetComputation()
    for rows, cols in SIZES:
        c.new_matrix(rows, cols)
    numbers = [c.new_submatrix(*block) for block in given_blocks]
    return c, Variables(submatrix_table(c), matrix_sizes(c), np.array(numbers)), numbers


def test_the_example_of_the_file() -> None:
    _, variables, (first, second) = _variables([(1, 0, 4, 0, 4), (1, 2, 4, 0, 4)])
    assert variables.counts(np.array([first, second])).tolist() == [2, 2]
    found = variables.of_submatrices(np.array([first, second])).tolist()
    assert found[1] == found[2]
    assert len(set(found)) == 3


@given(st.lists(blocks(), min_size=1, max_size=5))
def test_blocks_share_a_variable_exactly_if_they_overlap(given_blocks: list[tuple[int, int, int, int, int]]) -> None:
    c, variables, numbers = _variables(given_blocks)
    sets, elements = [], []
    for number in numbers:
        own = variables.of_submatrices(np.array([number])).tolist()
        assert len(own) == variables.counts(np.array([number]))[0] == len(set(own))
        block = c.submatrices[number]
        assert set(variables.matrix_of(np.array(own)).tolist()) == {block.matrix}
        sets.append(set(own))
        rows = range(block.row_offset, block.row_offset + block.num_rows)
        cols = range(block.col_offset, block.col_offset + block.num_cols)
        elements.append({(block.matrix, row, col) for row in rows for col in cols})
    for i, own in enumerate(sets):
        for j, other in enumerate(sets):
            assert bool(own & other) == bool(elements[i] & elements[j])
            assert (own <= other) == (elements[i] <= elements[j])
