"""SlotTable: where the slots of one node lie in the arrays of their sources, so that sweeps are slices and gathers.

The state of a node is a Boolean array (times, xs, classes) over the node's grid; the state of the slots has one more
axis for the slots. A node puts x(t-1) and x(t) side by side. Rows t = 0..3 of the node lie on x at t = -1..3 as
follows:

>>> from tests.lowering.examples import splice
>>> for block in SlotTable(splice().sweeps.ground.domain, 1).blocks:
...     print(f"slot {block.slot}: times[{block.own[0].start}:{block.own[0].stop}] look at "
...           f"times[{block.other[0].start}:{block.other[0].stop}] of node {block.source}")
slot 0: times[0:4] look at times[0:4] of node 0
slot 1: times[0:4] look at times[1:5] of node 0
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nnet3.engine.ir.objects import present
from nnet3.engine.lowering.domain import Domain
from nnet3.engine.lowering.grids import Grid
from nnet3.engine.lowering.slot_shapes import Scattered, Shift

Mask = npt.NDArray[np.bool_]
Region = tuple[slice, slice]  # of times and of xs


@dataclass(frozen=True)
class SlotBlock:
    """A slot by which part `own` of the user's grid looks at part `other` of the source's, in the same order."""

    slot: int
    source: int
    own: Region
    other: Region
    is_all: bool  # `own` is the user's whole grid


@dataclass(frozen=True, eq=False)
class SlotGather:
    """Slots by which row i of the user looks at row `position[i]` of the source, or at nothing (-1)."""

    source: int
    slots: npt.NDArray[np.intp]  # (slots,)
    position: npt.NDArray[np.int64]  # (rows, slots)


class SlotTable:
    """The slots of a node: `blocks` and `gathers` of sources with samples, `singles` (slot, source) of sources without.

    `all_samples`: sources read as a whole. `outside` (rows, slots): slots that look at the node's own recurrence beyond
    the domain, None without such slots. `passes_on`: the only slot, if the slot looks at the source for the whole grid.
    """

    def __init__(self, domain: Domain, node: int):
        structure, shape = domain.structure, present(domain.shapes[node])
        self.grid = domain.grid(node)
        slots = structure.slots[node]
        self.num_slots, self.asked, self.asks = slots.num_slots, slots.asked, len(slots.asked) > 0
        self.singles = shape.singles
        self.all_samples = [source for _, source in slots.all_samples]
        self.blocks: list[SlotBlock] = []
        self.gathers: list[SlotGather] = []
        self._recurrent = structure.components[structure.component_of_node[node]]
        self._outside: Mask | None = None
        for shift in shape.shifts:
            self._add_shift(shift, domain)
        for some in shape.scattered:
            self._add_scattered(some, domain)
        self.outside = self._outside if self._outside is not None and self._outside.any() else None
        alone = len(self.blocks) == self.num_slots == 1 and self.blocks[0].is_all
        self.passes_on = self.blocks[0] if alone else None

    def seen(self, copies: int, state: Callable[[int], Mask], beyond: bool) -> Mask:
        """Returns which slots see a row, (times, xs, `copies`, slots), by the state (times, xs, classes) of each node.

        `beyond`: whether slots see rows outside the domain of the node's recurrence.
        """
        found = np.zeros((*self.grid.shape, copies, self.num_slots), bool)
        if self.outside is not None and beyond:
            found[np.repeat(self.outside.reshape(*self.grid.shape, 1, -1), copies, axis=2)] = True
        for block in self.blocks:
            found[(*block.own, slice(None), block.slot)] = state(block.source)[block.other]
        rows = found.reshape(self.grid.num_rows, copies, self.num_slots)
        for gather in self.gathers:
            of_source = state(gather.source)
            looked_at = of_source.reshape(-1, of_source.shape[2])[gather.position].transpose(0, 2, 1)
            valid = (gather.position >= 0)[:, np.newaxis]  # (rows, 1, slots)
            rows[:, :, gather.slots] = np.where(valid, looked_at, rows[:, :, gather.slots])
        for slot, source in self.singles:
            found[..., slot] = state(source)[0, 0, 0]
        return found

    def _add_shift(self, shift: Shift, domain: Domain) -> None:
        block = _block(shift, self.grid, domain.grid(shift.source))
        if block is None:
            self._add_scattered(_scattered(shift, self.grid), domain)
            return
        if block.own[0].stop > block.own[0].start and block.own[1].stop > block.own[1].start:
            self.blocks.append(block)
        if not block.is_all and shift.source in self._recurrent:
            outside = self._outside_mask().reshape(*self.grid.shape, -1)[..., shift.slot]
            outside[:] = True
            outside[block.own] = False

    def _add_scattered(self, some: Scattered, domain: Domain) -> None:
        position = np.where(some.valid, domain.grid(some.source).find(some.times, some.xs), -1)
        if (position >= 0).any():
            self.gathers.append(SlotGather(some.source, some.slots, position))
        if some.source in self._recurrent:
            self._outside_mask()[:, some.slots] |= some.valid & (position < 0)

    def _outside_mask(self) -> Mask:
        if self._outside is None:
            self._outside = np.zeros((self.grid.num_rows, self.num_slots), bool)
        return self._outside


@dataclass(frozen=True, eq=False)
class SweepGround:
    """The ground of both sweeps: a domain, its slot tables, and the rows that a request gives or sums over.

    `tables`: by node, None outside the domain. `given`, `samples`: masks (times, xs, classes) by node.
    """

    domain: Domain
    tables: Sequence[SlotTable | None]
    given: Mapping[int, Mask]
    samples: Mapping[int, Mask]
    num_classes: int

    def table(self, node: int) -> SlotTable:
        """Returns the slot table of a node within the domain."""
        return present(self.tables[node])

    def empty(self, node: int) -> Mask:
        """Returns a mask without rows for a node within the domain, (times, xs, classes)."""
        return np.zeros((*self.table(node).grid.shape, self.copies(node)), bool)

    def copies(self, node: int) -> int:
        """Returns how many rows of a node's state belong to each row of its grid: the classes, or 1 without samples."""
        return self.num_classes if self.domain.structure.has_samples[node] else 1


def _block(shift: Shift, grid: Grid, source: Grid) -> SlotBlock | None:
    """Returns the slot as a block; None for a slot in several pieces."""
    if grid is source and shift.dt == 0 and shift.dx == 0:
        return SlotBlock(shift.slot, shift.source, grid.whole, grid.whole, True)
    times = _aligned_times(shift.dt, grid, source)
    xs = _aligned_xs(shift.dx, grid, source)
    if times is None or xs is None:
        return None
    is_all = (times[0], xs[0]) == grid.whole
    return SlotBlock(shift.slot, shift.source, (times[0], xs[0]), (times[1], xs[1]), is_all)


def _aligned_times(move: int, grid: Grid, source: Grid) -> Region | None:
    if move == 0 and grid.intervals == source.intervals:
        return slice(0, grid.shape[0]), slice(0, grid.shape[0])
    if not (grid.is_contiguous and source.is_contiguous):
        return None
    (own_first, own_last), (first, last) = grid.intervals[0], source.intervals[0]
    low, high = max(own_first + move, first), min(own_last + move, last) + 1
    if high <= low:
        return slice(0, 0), slice(0, 0)
    return slice(low - move - own_first, high - move - own_first), slice(low - first, high - first)


def _aligned_xs(move: int, grid: Grid, source: Grid) -> Region | None:
    if move == 0 and grid.x_values == source.x_values:
        return slice(0, grid.shape[1]), slice(0, grid.shape[1])
    position = source.find_xs(grid.xs + move)
    found = np.flatnonzero(position >= 0)
    if len(found) == 0:
        return slice(0, 0), slice(0, 0)
    own = slice(int(found[0]), int(found[-1]) + 1)
    other = slice(int(position[found[0]]), int(position[found[-1]]) + 1)
    one_piece = own.stop - own.start == other.stop - other.start == len(found)
    return (own, other) if one_piece else None


def _scattered(shift: Shift, grid: Grid) -> Scattered:
    table = grid.table().astype(np.int64)
    times, xs = table[:, 1:2] + shift.dt, table[:, 2:3] + shift.dx
    return Scattered(shift.source, np.array([shift.slot]), times, xs, np.ones(times.shape, bool))
