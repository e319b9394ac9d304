"""PlanMemory: the arena of a plan and its outside memory, with elements of a finite field in the place of numbers.

Memory is cut into cells wherever a view of the plan begins or ends a row or a block of columns. The writer of a block
puts the block's element into the first cell, and marks all cells with the block. A reader of the block gets the element
back if the cells bear the block's mark; else another call has written there, or none has, and the read is random.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from nnet3.engine.ir.proof import field
from nnet3.engine.ir.proof.columns import Columns, ColumnSpan
from nnet3.engine.ir.proof.field import Elements
from nnet3.engine.runtime.dtypes import DTYPES
from nnet3.engine.runtime.plan import Plan
from nnet3.errors import ProofError

_NOBODY = -1


class ViewCells(NamedTuple):
    """The cells of a view: the first cell of each block, its mark, and the further cells with their blocks' numbers."""

    first: np.ndarray  # (rows, blocks)
    marks: np.ndarray  # (rows, blocks)
    others: np.ndarray
    block: np.ndarray
    begin: int  # all cells are in [begin, end)
    end: int

    @property
    def all(self) -> np.ndarray:
        return np.concatenate([self.first.ravel(), self.others]) if len(self.others) else self.first.ravel()


class PlanMemory:
    """The memory of one run. Views have their numbers in the plan."""

    def __init__(
        self,
        plan: Plan,
        views: np.ndarray,
        spans: Mapping[int, ColumnSpan],
        iterations: Mapping[int, int],
        columns: Columns,
        random: field.Drawing,
    ) -> None:
        """Raises ProofError for a view that leaves the memory.

        `views`: as in the plan. `spans`: the columns of each used view; `iterations`: the iterations of the loops with
        the view."""
        self._plan, self._views, self._random = plan, views.tolist(), random
        self._sizes = [DTYPES[name].itemsize for name in plan.lanes]
        self._bases, end = list[int](), plan.num_bytes
        for memory in plan.outside:
            self._bases.append(end)
            end += memory.num_rows * memory.num_cols * self._sizes[0]
        self._end = end
        self._edges = {view: self._edges_of(view, span, columns) for view, span in spans.items()}
        is_cut = np.zeros(end + 1, bool)
        is_cut[end] = True
        for view, edges in self._edges.items():
            for iteration in range(iterations.get(view, 1) if self.moves(view) else 1):
                is_cut[self._rows(view, iteration)[:, None] + edges] = True
        self._cuts = np.flatnonzero(is_cut)
        self._values = np.zeros((len(self._cuts), 2), np.uint64)
        self._marks = np.full(len(self._cuts), _NOBODY, np.int64)
        self._flags = np.zeros(len(self._cuts), bool)
        self._cells: dict[int, ViewCells] = {}
        self._moved: dict[int, ViewCells] = {}  # of views that move, in the iteration that was asked for last
        self._iteration = 0

    # ---- where views lie ----

    def moves(self, view: int) -> bool:
        """Tells whether a view lies elsewhere in another iteration of a loop."""
        return any(self._views[view][-2:])

    def shape(self, view: int, iteration: int) -> tuple[int, ...]:
        """Returns the shape of a view, without its columns."""
        _, _, _, outer, inner, *_, uneven = self._views[view]
        if uneven:
            return (int(self._plan.uneven[uneven - 1][iteration, 1]),)
        return (outer, inner) if outer else (inner,)

    def cells(self, view: int, iteration: int) -> ViewCells:
        """Returns the cells of a view in an iteration."""
        if iteration != self._iteration:
            self._iteration = iteration
            self._moved.clear()
        found = self._cells.get(view) or self._moved.get(view)
        if found is None:
            found = self._find(view, iteration)
            (self._moved if self.moves(view) else self._cells)[view] = found
        return found

    def _find(self, view: int, iteration: int) -> ViewCells:
        edges = np.searchsorted(self._cuts, self._rows(view, iteration)[:, None] + self._edges[view])
        first, end = edges[:, :-1], edges[:, 1:]
        marks = (first * (len(self._cuts) + 1) + end) * len(self._sizes) + self._views[view][0] % len(self._sizes)
        more = (end - first - 1).ravel()
        within = (int(first.min()), int(end.max())) if first.size else (0, 0)
        block = np.repeat(np.arange(len(more)), more) if more.any() else np.zeros(0, np.int64)
        begins = np.cumsum(more) - more
        others = first.ravel()[block] + 1 + np.arange(len(block)) - begins[block]
        return ViewCells(first, marks, others, block, *within)

    def _lane(self, view: int) -> tuple[int, int, int]:
        """Returns a view's first possible byte, the byte after its last possible one, and the bytes of an element."""
        lane = self._views[view][0]
        if lane >= 0:
            return 0, self._plan.num_bytes, self._sizes[lane]
        memory, begin = self._plan.outside[-1 - lane], self._bases[-1 - lane]
        size = self._sizes[0]
        return begin, begin + memory.num_rows * memory.num_cols * size, size

    def _rows(self, view: int, iteration: int) -> np.ndarray:
        """Returns the bytes at which the rows of a view begin."""
        lane, start, col, outer, inner, cols, outer_stride, stride, iteration_stride, uneven = self._views[view]
        if uneven:
            first, count = self._plan.uneven[uneven - 1][iteration].tolist()
            rows = start + (first + np.arange(count)) * stride
        else:
            rows = (np.arange(max(outer, 1))[:, None] * outer_stride + np.arange(inner) * stride).ravel()
            rows += start + iteration * iteration_stride
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
        """Change the elements of cells."""
        self._values[cells.first] = values
        self._marks[cells.first] = cells.marks
        if len(cells.others):
            self._marks[cells.others] = cells.marks.ravel()[cells.block]

    def forget(self, cells: ViewCells) -> None:
        """Make later reads of cells random."""
        self._marks[cells.all] = _NOBODY

    def meet(self, one: ViewCells, other: ViewCells) -> bool:
        """Tells whether two views have a cell in common."""
        if not (one.first.size and other.first.size) or one.end <= other.begin or other.end <= one.begin:
            return False
        elements = one.all
        self._flags[elements] = True
        found = bool(self._flags[other.all].any())
        self._flags[elements] = False
        return found

    def overlaps_itself(self, cells: ViewCells) -> bool:
        """Tells whether two blocks of a view have a cell in common."""
        elements, within = cells.all, self._flags[cells.begin : cells.end]
        self._flags[elements] = True
        count = np.count_nonzero(within)
        within[:] = False
        return count != len(elements)
