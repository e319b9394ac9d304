"""Rows by their distance to the end, and step buffers whose rows are of the times of those who use them."""

from __future__ import annotations

import numpy as np
import pytest

from nnet3.base.index import NO_TIME, T
from nnet3.engine.families.ragged_rows import BufferVersions, IndexRows, NotRaggedError
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.program_tables import MatrixInfo

FRAMES = 3


def by_time(first: int, frames: int, sequences: int = 2) -> np.ndarray:
    """The rows of some frames, those of a time side by side."""
    t, n = np.meshgrid(np.arange(first, first + frames), np.arange(sequences), indexing="ij")
    return np.stack([n.ravel(), t.ravel(), 0 * n.ravel()], axis=1).astype(np.int32)


class Program:
    """x at t = 0, 1, 2, y one frame earlier, and a buffer for one time step; the numbers of their sub-matrices."""

    def __init__(self) -> None:
        self.c = NnetComputation()
        self.x = self.c.new_matrix(6, 1, MatrixInfo("x", False, by_time(0, FRAMES)))
        self.y = self.c.new_matrix(6, 1, MatrixInfo("y", False, by_time(-1, FRAMES)))
        step = by_time(0, 1)
        step[:, T] = NO_TIME
        self.buffer = self.c.new_matrix(2, 2, MatrixInfo("h", False, step))
        self.left, self.right = (self.c.new_submatrix(self.buffer, 0, 2, column, 1) for column in range(2))
        self.rows = IndexRows(self.c, self.distances, {})
        self.versions = BufferVersions(self.c, self.rows)
        self.at = {
            name: self.rows.base[self.c.submatrices[number].matrix]
            for name, number in vars(self).items()
            if name in "xy"
        }

    @staticmethod
    def distances(info: MatrixInfo) -> np.ndarray:
        """Both nodes end with their last row."""
        assert info.indexes is not None
        last = FRAMES - 1 if info.node == "x" else FRAMES - 2
        return last - info.indexes[:, T].astype(np.int64)


def test_rows_are_the_same_at_equal_distances_to_the_end() -> None:
    each = Program()
    assert each.at["x"] == each.at["y"]  # the tables of x and y are one
    first = each.at["x"]
    assert each.rows.same(first, first, 6)
    assert not each.rows.same(first, first + 2, 2)
    assert [each.rows.single_time(first + row, 2) for row in (0, 2, 4)] == [2, 1, 0]
    assert each.rows.single_time(first, 4) is None
    assert each.rows.single_time(first + 1, 2) is None


@pytest.mark.parametrize(
    ("rows", "runs"),
    [
        ([0, 1, 2, 3, 4, 5], [0, 2, 4, 6]),
        ([2, 3, 4, 5], [0, 2, 4]),
        ([2, 3, 4], [0, 2, 3]),
        ([4, 5, 0, 1], [0, 2, 4]),
        ([2, -1, -1, 5], [0, 1, 2, 3, 4]),
        ([1, 2], None),
    ],
)
def test_rows_of_several_times_are_moved_in_runs(rows: list[int], runs: list[int] | None) -> None:
    """Rows 0 and 1 are of the first time, 2 and 3 of the next one; -1 stands for no row."""
    each = Program()
    found = each.rows.times_alike(each.at["x"], np.array([row if row < 0 else each.at["x"] + row for row in rows]))
    assert (None if found is None else found.tolist()) == runs


def test_a_buffer_has_the_times_of_what_it_meets() -> None:
    each = Program()
    versions, first = each.versions, each.at["x"]
    for row in (0, 2):
        written = versions.write(each.buffer)
        assert not versions.is_known(written)
        versions.unify(written, first + row, 2)
        assert versions.start(versions.read(each.buffer)) == first + row
    assert sorted(start for _, start, _ in versions.firsts()) == [first, first + 2]


def test_columns_that_are_read_together_are_of_one_time() -> None:
    each = Program()
    left, right = each.versions.write(each.left), each.versions.write(each.right)
    each.versions.unify(left, each.at["x"] + 4, 2)
    assert each.versions.start(each.versions.read(each.buffer)) == each.at["x"] + 4
    assert each.versions.start(right) == each.at["x"] + 4


def test_rows_that_are_written_apart_and_read_together_are_of_one_step() -> None:
    """Whatever was written to rows that have been overwritten since."""
    each = Program()
    first, second = (each.c.new_submatrix(each.buffer, row, 1) for row in (0, 1))
    versions = BufferVersions(each.c, each.rows)
    versions.unify(versions.write(each.buffer), each.at["x"], 2)
    written = [versions.write(number) for number in (second, first)]
    versions.unify(versions.read(each.buffer), each.at["x"] + 4, 2)
    assert [versions.start(start) for start in written] == [each.at["x"] + 5, each.at["x"] + 4]


def test_contradictions_are_refused() -> None:
    each = Program()
    with pytest.raises(NotRaggedError, match="matrix m3 is read before it is written"):
        each.versions.read(each.buffer)
    written = each.versions.write(each.buffer)
    with pytest.raises(NotRaggedError, match="nothing says which times rows of matrix m3 have"):
        each.versions.start(written)
    each.versions.unify(written, each.at["x"], 2)
    with pytest.raises(NotRaggedError, match="rows of matrix m3 are of two times at once"):
        each.versions.unify(written, each.at["x"] + 2, 2)
    with pytest.raises(NotRaggedError, match="operands of different times"):
        each.versions.unify(each.at["x"], each.at["x"] + 2, 2)
    with pytest.raises(NotRaggedError, match="rows with and without samples meet"):
        each.versions.unify(each.at["x"], None, 2)
