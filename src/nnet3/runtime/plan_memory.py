"""PlanMemory: the arena of a plan and its outside memory, with elements of a finite field in the place of numbers.

Memory is cut into cells wherever a view of the plan begins or ends a row or a block of columns. Who writes a block puts
its element into the first of its cells, and marks all of them with the block. Who reads the block gets the element back
if the cells bear its mark; else somebody else has written there, or nobody has, and what is read is random.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from nnet3.errors import ProofError
from nnet3.ir.proof import field
from nnet3.ir.proof.columns import Columns, ColumnSpan
from nnet3.ir.proof.field import Elements
from nnet3.runtime.lanes import LANES
from nnet3.runtime.plan import Plan

_NOBODY = -1


class ViewCells(NamedTuple):
    """The cells of a view: the first one of each block, its mark, and the others with the numbers of their blocks."""

    first: np.ndarray  # (rows, blocks)
    marks: np.ndarray  # (rows, blocks)
    others: np.ndarray
    block: np.ndarray

    @property
    def all(self) -> np.ndarray:
        return np.concatenate([self.first.ravel(), self.others])


class PlanMemory:
    """The memory of one run. Views have their numbers in the plan."""

    def __init__(
        self,
        plan: Plan,
        views: np.ndarray,
        spans: Mapping[int, ColumnSpan],
        turns: Mapping[int, int],
        columns: Columns,
        random: field.Drawing,
    ) -> None:
        """Raises ProofError for a view that leaves the memory.

        `views`: as in the plan. `spans`: the columns of each view that is used; `turns`: of the loops that use it.
        """
        self._plan, self._views, self._random = plan, views.tolist(), random
        self._sizes = [LANES[name].itemsize for name in plan.lanes]
        self._bases, end = list[int](), plan.num_bytes
        for memory in plan.outside:
            self._bases.append(end)
            end += memory.num_rows * memory.num_cols * LANES[memory.dtype].itemsize
        self._end = end
        self._edges = {view: self._edges_of(view, span, columns) for view, span in spans.items()}
        is_cut = np.zeros(end + 1, bool)
        is_cut[end] = True
        for view, edges in self._edges.items():
            for turn in range(turns.get(view, 1) if self.moves(view) else 1):
                is_cut[self._rows(view, turn)[:, None] + edges] = True
        self._cuts = np.flatnonzero(is_cut)
        self._values = np.zeros((len(self._cuts), 2), np.uint64)
        self._marks = np.full(len(self._cuts), _NOBODY, np.int64)
        self._flags = np.zeros(len(self._cuts), bool)
        self._cells: dict[tuple[int, int], ViewCells] = {}  # of views that move by turn, else of turn 0

    # ---- where views lie ----

    def moves(self, view: int) -> bool:
        """Tells whether a view lies elsewhere in another turn of a loop."""
        return any(self._views[view][-2:])

    def shape(self, view: int, turn: int) -> tuple[int, ...]:
        """Returns the shape of a view, without its columns."""
        _, _, _, outer, inner, *_, uneven = self._views[view]
        if uneven:
            return (int(self._plan.uneven[uneven - 1][turn, 1]),)
        return (outer, inner) if outer else (inner,)

    def cells(self, view: int, turn: int) -> ViewCells:
        """Returns the cells of a view in a turn."""
        key = view, turn if self.moves(view) else 0
        found = self._cells.get(key)
        if found is None:
            found = self._cells[key] = self._find(*key)
        return found

    def _find(self, view: int, turn: int) -> ViewCells:
        edges = np.searchsorted(self._cuts, self._rows(view, turn)[:, None] + self._edges[view])
        first, end = edges[:, :-1], edges[:, 1:]
        marks = (first * (len(self._cuts) + 1) + end) * len(self._sizes) + self._views[view][0] % len(self._sizes)
        more = (end - first - 1).ravel()
        block = np.repeat(np.arange(len(more)), more)
        begins = np.cumsum(more) - more
        return ViewCells(first, marks, first.ravel()[block] + 1 + np.arange(len(block)) - begins[block], block)

    def _lane(self, view: int) -> tuple[int, int, int]:
        """Returns of a view: the first byte that it may have, the byte after the last, the bytes of an element."""
        lane = self._views[view][0]
        if lane >= 0:
            return 0, self._plan.num_bytes, self._sizes[lane]
        memory, begin = self._plan.outside[-1 - lane], self._bases[-1 - lane]
        size = LANES[memory.dtype].itemsize
        return begin, begin + memory.num_rows * memory.num_cols * size, size

    def _rows(self, view: int, turn: int) -> np.ndarray:
        """Returns the bytes at which the rows of a view begin."""
        lane, start, col, outer, inner, cols, outer_step, step, turn_step, uneven = self._views[view]
        if uneven:
            first, count = self._plan.uneven[uneven - 1][turn].tolist()
            rows = start + (first + np.arange(count)) * step
        else:
            rows = (np.arange(max(outer, 1))[:, None] * outer_step + np.arange(inner) * step).ravel()
            rows += start + turn * turn_step
        begin, end, size = self._lane(view)
        rows = begin + (rows * (self._plan.outside[-1 - lane].num_cols if lane < 0 else 1) + col) * size
        if len(rows) and (rows.min() < begin or rows.max() + cols * size > end):
            raise ProofError(
                f"view {view} has bytes {rows.min()} to {rows.max() + cols * size}, outside of {begin} to {end}"
            )
        return np.asarray(rows)

    def _edges_of(self, view: int, span: ColumnSpan, columns: Columns) -> np.ndarray:
        cuts = np.append(columns.cuts(span), span.first + span.width) - span.first
        return np.asarray(cuts * self._lane(view)[2])

    # ---- what lies there ----

    def read(self, cells: ViewCells) -> Elements:
        """Returns what lies in cells, (rows, blocks, 2): a copy."""
        values = self._values[cells.first]
        wrong = self._marks[cells.first] != cells.marks
        if len(cells.others):
            wrong.ravel()[cells.block[self._marks[cells.others] != cells.marks.ravel()[cells.block]]] = True
        if wrong.any():
            values[wrong] = self._random.next((int(wrong.sum()), 2))
        return values

    def write(self, cells: ViewCells, values: Elements) -> None:
        """Change what lies in cells."""
        self._values[cells.first] = values
        self._marks[cells.first] = cells.marks
        if len(cells.others):
            self._marks[cells.others] = cells.marks.ravel()[cells.block]

    def forget(self, cells: ViewCells) -> None:
        """Let what is read from cells be random."""
        self._marks[cells.all] = _NOBODY

    def meet(self, one: ViewCells, other: ViewCells) -> bool:
        """Tells whether two views have a cell in common."""
        if not (one.first.size and other.first.size):
            return False
        places = one.all
        self._flags[places] = True
        found = bool(self._flags[other.all].any())
        self._flags[places] = False
        return found

    def overlaps_itself(self, cells: ViewCells) -> bool:
        """Tells whether two blocks of a view have a cell in common."""
        places = cells.all
        return len(np.unique(places)) != len(places)
