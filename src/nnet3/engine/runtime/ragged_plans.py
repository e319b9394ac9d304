"""RaggedPlans: the plans of programs with equal commands on unequal rows, as programs for several sets of lengths.

One program is planned with parameters in the place of row numbers. The resulting plan is affine in the parameters, and
holds for all programs: each plan follows by arithmetic. Blocks have the size of the largest matrices seen so far, so
views with equal first rows in a matrix do not move. Larger blocks lie in the order of the first ones.
"""

from __future__ import annotations

import numpy as np

from nnet3.engine.families.polynomial import AffineNumbers
from nnet3.engine.ir.computation import NnetComputation, RowNumbers
from nnet3.engine.runtime.packing import stacked
from nnet3.engine.runtime.plan import Plan
from nnet3.engine.runtime.planning import unplaced_plan_by
from nnet3.engine.runtime.row_planner import RowPlanner, parameters_of
from nnet3.engine.runtime.unplaced_plan import UnplacedPlan

_SIZES_PER_DOUBLING = 16  # to which sizes are rounded up between a power of two and the next


class RaggedPlans:
    """Plans in one dtype as a function of row numbers."""

    def __init__(self, computation: NnetComputation, dtype: str) -> None:
        """Raises NotAffineError."""
        planner = RowPlanner(computation, dtype)
        made = unplaced_plan_by(planner)
        self._plan, self._of_views = made.plan, (made.block_of_view, made.element_bytes)
        self._selections = planner.selections
        number_of_table = {id(table): number for number, table in computation.iterations.items()}
        self._uneven = [number_of_table[id(table)] for table in self._plan.uneven]
        ports = [port.num_rows for each in self._plan.segments for port in (*each.accepts, *each.provides)]
        views, elements = self._plan.views, made.blocks[:, 3]
        self._ends = np.cumsum([views.size, len(elements)])
        self._numbers = AffineNumbers([*views.ravel(), *elements, *ports])
        self._blocks = np.where(np.arange(6) == 3, 0, made.blocks).astype(np.int64)  # 3: the capacity, in elements
        self._order: tuple[np.ndarray, np.ndarray] | None = None  # for `stacked`
        self._places = np.zeros(len(elements) + 1, np.int64)  # of the blocks, and the size of all, in bytes

    def plan(self, rows: RowNumbers) -> Plan:
        views, elements, ports = np.split(self._numbers.at(parameters_of(rows)), self._ends)
        plan, loops = self._plan, self._plan.loops.copy()
        loops[:, 2] = rows.num_iterations
        plan = plan.changed(
            views=views.reshape(plan.views.shape),
            loops=loops,
            indexes=tuple([selection.of(rows.index_tables[table]) for table, selection in self._selections]),
            precomputed=tuple(rows.precomputed),
            uneven=tuple([rows.iterations[number] for number in self._uneven]),
            segments=plan.segments_with_rows(iter(ports.tolist())),
            are_views_apart=True,
        )
        if (elements > self._blocks[:, 3]).any():
            self._blocks[:, 3] = np.maximum(self._blocks[:, 3], _rounded_up(elements))
            made = UnplacedPlan(plan, self._blocks, *self._of_views)
            self._order = self._order or (made.packed()[0], made.meet())
            self._places = stacked(*self._order, made.num_bytes[:, np.newaxis])[:, 0]
        return UnplacedPlan(plan, self._blocks, *self._of_views).placed(self._places[:-1], int(self._places[-1]))


def _rounded_up(sizes: np.ndarray) -> np.ndarray:
    """Returns the next larger sizes; there are `_SIZES_PER_DOUBLING` sizes from a power of two to the next."""
    step = np.maximum(1, 2 ** np.floor(np.log2(np.maximum(sizes, 1))).astype(np.int64) // _SIZES_PER_DOUBLING)
    return -(-sizes // step) * step
