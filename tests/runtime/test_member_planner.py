"""Tables of all lengths as one table: rows and regular parts say how they go on, and what does not go on is refused."""

from __future__ import annotations

import numpy as np
import pytest

from nnet3.engine.families.continued import Continued, NotAffineError, TablePiece, continued
from nnet3.engine.families.number_table import table_of
from nnet3.engine.ir.computation import FamilyMember
from nnet3.engine.runtime.member_planner import MemberPlanner, blocks_for_all, digits, rows_for_all
from nnet3.engine.runtime.row_blocks import STEP, RowBlocks, find_blocks

LONGEST = 7


def table(k: int, sequences: int, *, by_sequence: bool) -> np.ndarray:
    """A row that stays, rows of all times or of all sequences in turn, and two rows behind them; one is missing."""
    frames = 12 + k
    rows = np.arange(sequences * frames).reshape(frames, sequences)
    return np.concatenate([[0], (rows.T if by_sequence else rows).ravel() + 3, [-1, sequences * frames + 4]])


def tables(sequences: int, *, by_sequence: bool) -> Continued:
    return continued([[table_of(table(k, sequences, by_sequence=by_sequence))] for k in (0, 1)])


def at(numbers: np.ndarray, k: int) -> np.ndarray:
    base, slope = digits(numbers)
    return np.asarray(base + k * slope)


def rows_of(blocks: RowBlocks, k: int) -> list[list[int]]:
    """All rows of the blocks for some k."""
    columns = [at(each, k) for each in (blocks.start, blocks.outer, blocks.outer_stride, blocks.inner)]
    found = []
    for start, outer, outer_stride, inner, stride in zip(*columns, at(blocks.inner_stride, k), strict=True):
        found += [(start + i * outer_stride + j * stride).tolist() for i in range(outer) for j in range(inner)]
    return sorted(found)


def known(rows: np.ndarray) -> np.ndarray:
    """Positions and rows, without -1."""
    return np.stack([np.flatnonzero(rows >= 0), rows[rows >= 0]], axis=1)


@pytest.mark.parametrize("sequences", [1, 4])
@pytest.mark.parametrize("by_sequence", [False, True])
def test_regular_parts_of_tables_go_on_with_their_rows(sequences: int, by_sequence: bool) -> None:
    rows, positions = rows_for_all(tables(sequences, by_sequence=by_sequence).pieces(0))
    columns = np.column_stack([positions, rows])
    columns = columns[digits(rows[:, 0])[0] >= 0]
    np.testing.assert_array_equal(at(columns, 0), known(table(0, sequences, by_sequence=by_sequence)))
    longer = known(table(1, sequences, by_sequence=by_sequence))
    blocks = blocks_for_all(find_blocks(at(columns, 0)), columns, longer)
    for k in range(LONGEST):
        assert rows_of(blocks, k) == known(table(k, sequences, by_sequence=by_sequence)).tolist()
    assert blocks.outer.max() == (1 if sequences == 1 or not by_sequence else sequences)


def test_rows_that_are_regular_in_the_smallest_member_alone_are_refused() -> None:
    """The last row stays, and so is the next one of the rows before it for one length alone."""
    zero, one = np.zeros((1, 1), np.int64), np.ones((1, 1), np.int64)
    growing, last = TablePiece(12, 1, zero, zero, one, zero[0]), TablePiece(1, 0, 12 * one, zero, zero, zero[0])
    rows, positions = rows_for_all([growing, last])
    columns = np.column_stack([positions, rows])
    smallest = at(columns, 0)
    assert len(find_blocks(smallest)) == 1
    with pytest.raises(NotAffineError, match="unevenly"):
        blocks_for_all(find_blocks(smallest), columns, known(np.concatenate([np.arange(13), [12]])))


def test_rows_that_come_between_others_are_refused() -> None:
    """Two lists of rows, one in the other, are not what their first and last rows say."""
    columns = np.array([[0], [1], [2 + STEP], [3 + STEP]])
    with pytest.raises(NotAffineError, match="less regular"):
        blocks_for_all(find_blocks(at(columns, 0)), columns, np.array([[0], [1], [1], [3], [4]]))


def test_members_whose_tables_nobody_knows_are_refused() -> None:
    def unknown(k: int) -> None:
        raise AssertionError(k)

    with pytest.raises(NotAffineError):
        MemberPlanner(FamilyMember(0, unknown, unknown, {}), "float32")  # type: ignore[arg-type]
