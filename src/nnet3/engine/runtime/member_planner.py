"""MemberPlanner: plans all members of a family at once.

A number base + slope * k is written as one integer of two digits, base + slope * STEP. Sums and multiples of integers
are those of the numbers for all k, and numbers that differ for some k are different integers:

>>> rows = np.array([17, 4]) + STEP * np.array([1, 0])
>>> [digit.tolist() for digit in digits(3 * rows + 1)]
[[52, 13], [3, 0]]

Of a table, the rows of the first member are written in this way. Further rows come in the middle of those that
repeat, so the first and the last row of a regular part say how the part goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from nnet3.engine.families.continued import Continued, NotAffineError, TablePiece
from nnet3.engine.ir.computation import FamilyMember
from nnet3.engine.ir.objects import Distinct
from nnet3.engine.runtime.planner import Planner
from nnet3.engine.runtime.row_blocks import (
    STEP,
    VIEWS_PER_GROUP,
    RowBlocks,
    RowPattern,
    find_blocks,
    goes_up_by_one,
    range_runs,
    row_pattern,
)
from nnet3.engine.runtime.row_planner import TableSelection


def digits(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns base and slope of numbers."""
    slope = (numbers + STEP // 2) // STEP
    return numbers - slope * STEP, slope


def rows_for_all(pieces: Iterable[TablePiece], first: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Returns the rows of member `first`, (rows, columns), and their positions, for all k counted from `first`."""
    rows, positions, start = list[np.ndarray](), list[np.ndarray](), 0
    for fewest, more_iterations, base, slope, step, _ in pieces:
        iteration = np.arange(iterations := fewest + first * more_iterations)
        iteration += np.where(2 * iteration < iterations, 0, STEP * more_iterations)
        rows.append((base + (STEP + first) * slope + iteration[:, None, None] * step).reshape(-1, base.shape[1]))
        positions.append((start + iteration[:, None] * len(base) + np.arange(len(base))).ravel())
        start += (iterations + STEP * more_iterations) * len(base)
    return np.concatenate(rows), np.concatenate(positions)


def blocks_for_all(blocks: RowBlocks, rows: np.ndarray, longer: np.ndarray) -> RowBlocks:
    """Returns the blocks of the smallest member's rows, (rows, lists), as blocks for all k.

    `longer`: the rows for k = 1, in any order. Raises NotAffineError if blocks do not go on with their rows.
    """

    def along(count: np.ndarray, apart: np.ndarray | int) -> tuple[np.ndarray, np.ndarray]:
        """Returns counts and strides of `count` rows, each so many places apart in `rows` from the one before."""
        stride = rows[first + np.where(count > 1, apart, 0)] - start
        way = rows[first + (count - 1) * apart] - start
        times = (way // np.where(stride, stride, 1)).max(axis=1, initial=0)
        if (times[:, None] * stride != way).any() or (digits(times)[0] != count - 1).any():
            raise NotAffineError("rows go on unevenly")
        return times + 1, stride

    first = blocks.first_rows
    start = rows[first]
    (inner, stride), (outer, outer_stride) = along(blocks.inner, 1), along(blocks.outer, blocks.inner)
    made, found = (start, outer, outer_stride, inner, stride), [longer[:0]]
    for begin, heads, by, count, each in zip(*(sum(digits(numbers)) for numbers in made), strict=True):  # for k = 1
        steps = np.arange(heads)[:, None, None] * by + np.arange(count)[:, None] * each
        found.append((begin + steps).reshape(-1, len(begin)))
    all_found = np.concatenate(found)
    if not np.array_equal(all_found[np.lexsort(all_found.T)], longer[np.lexsort(longer.T)]):
        raise NotAffineError("rows are less regular in longer programs")
    return RowBlocks(*made)


class _Table:
    """An index table for all k: positions and rows, positions of -1, count; `longer`: the next member's table."""

    def __init__(self, number: int, table: Continued, first: int) -> None:
        self.number = number
        rows, positions = rows_for_all(table.pieces(0), first)
        is_known = digits(rows[:, 0])[0] >= 0
        self.source, self.dest, self.missing = rows[is_known, 0], positions[is_known], positions[~is_known]
        self.longer = table.at(first + 1)[0].values[:, 0].astype(np.int64)
        self.count = len(self.dest) + STEP * (int((self.longer >= 0).sum()) - len(self.dest))

    def pattern(self) -> RowPattern:
        """Returns the moves for all k. Raises NotAffineError."""
        rows = np.stack([self.dest, self.source], axis=1)
        found = row_pattern(*digits(rows)[0].T)
        rows = rows[np.searchsorted(digits(self.dest)[0], found.dest_row)]
        for column in np.sort(rows, axis=0).T:
            if goes_up_by_one(column) and column[-1] - column[0] + 1 != self.count:
                raise NotAffineError("rows lie apart in longer programs")
        longer = np.stack([TableSelection.DEST.of(self.longer), TableSelection.SOURCE.of(self.longer)], axis=1)
        blocks = None if found.blocks is None else blocks_for_all(found.blocks, rows, longer)
        return RowPattern(rows[:, 0], rows[:, 1], blocks, found.is_slice)

    def selection(self, rows: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        """Returns the function from the table to these rows. Raises NotAffineError."""
        selections = TableSelection.SOURCE.of, TableSelection.DEST.of, TableSelection.MISSING.of, _by_source
        by_source = self.dest[np.argsort(self.source, kind="stable")]
        for selection, own in zip(selections, (self.source, self.dest, self.missing, by_source), strict=True):
            if np.array_equal(own, rows):
                return selection
        raise NotAffineError("an index has another order in longer programs")


def _by_source(table: np.ndarray) -> np.ndarray:
    """Returns the positions of the rows of a table but -1, in the order of these rows."""
    return TableSelection.DEST.of(table)[np.argsort(TableSelection.SOURCE.of(table), kind="stable")]


class MemberPlanner(Planner):
    """A planner of a program for all k, counted from member `first`; its indexes are `selections` of index tables."""

    args = np.int64

    def __init__(self, member: FamilyMember, dtype: str, first: int = 0) -> None:
        """Raises NotAffineError."""
        if member.for_all is None:
            raise NotAffineError("nobody knows the tables of longer programs")
        program, self.tables = member.for_all(STEP + first)
        if program.multi_tables:
            raise NotAffineError("a table names several sub-matrices")
        super().__init__(program, dtype)
        self._first = first
        #: The index table of each index, and what the index is of it.
        self.selections = Distinct[tuple[int, Callable[[np.ndarray], np.ndarray]]]()
        self._found: dict[int, tuple[_Table, RowPattern]] = {}

    def pattern(self, table: int) -> tuple[RowPattern, np.ndarray]:
        if table not in self._found:
            found = _Table(table, self.tables("index_tables", [table]), self._first)
            self._found[table] = found, found.pattern()
        self._table, pattern = self._found[table]  # of the command that is being planned
        return pattern, self._table.missing

    def count(self, rows: np.ndarray) -> int:
        return self._table.count

    def blocks_of(self, rows: np.ndarray) -> RowBlocks:
        blocks, longer = find_blocks(digits(rows)[0][:, None]), TableSelection.MISSING.of(self._table.longer)
        return blocks if len(blocks) > VIEWS_PER_GROUP else blocks_for_all(blocks, rows[:, None], longer[:, None])

    def index(self, rows: np.ndarray) -> int:
        selection = self._table.selection(rows)
        key = rows.tobytes() + selection(self._table.longer).tobytes()
        return self.selections.number_of((self._table.number, selection), key)

    def ranges(self, table: int) -> tuple[np.ndarray, RowBlocks]:
        continued = self.tables("range_tables", [table])
        ranges, positions = rows_for_all(continued.pieces(0), self._first)
        rows, found = range_runs(positions, ranges)
        ranges = continued.at(self._first + 1)[0].values.astype(np.int64)
        longer, _ = range_runs(np.arange(len(ranges)), ranges)
        if len(found) > VIEWS_PER_GROUP:
            raise NotAffineError("sums of many lengths")
        return rows, blocks_for_all(found, rows[:, :2], longer[:, :2])
