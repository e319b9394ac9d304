"""UnplacedPlan: a plan whose blocks of memory have no offsets yet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nnet3.engine.runtime.packing import ALIGNMENT, lowest_gap, pack
from nnet3.engine.runtime.plan import Plan


@dataclass(frozen=True, eq=False)
class UnplacedPlan:
    """A plan without the offsets of matrices.

    `blocks` (blocks, 6): matrix (negative: its compressed contents; 0: scratch memory), first and last command,
    elements, bytes of each, iteration. Scratch blocks of one command share memory unless they are of one iteration.
    Views of `plan` begin relative to block `block_of_view`, (views,); -1 for views outside of the arena.
    `element_bytes` (views,): of what the beginning of a view counts. `plan.spans` are without offsets."""

    plan: Plan
    blocks: np.ndarray
    block_of_view: np.ndarray
    element_bytes: np.ndarray

    @property
    def num_bytes(self) -> np.ndarray:
        """The sizes of the blocks."""
        return np.asarray(self.blocks[:, 3] * self.blocks[:, 4])

    def packed(self) -> tuple[np.ndarray, int]:
        """Returns offsets of the blocks and the size of all, in bytes; scratch memory lies in gaps between matrices."""
        sizes = self.num_bytes
        matrices = np.flatnonzero(self.blocks[:, 0])
        spans = self.blocks[matrices, 1:3]
        offsets = np.zeros(len(sizes), dtype=np.int64)
        offsets[matrices], num_bytes = pack(sizes[matrices], spans[:, 0], spans[:, 1])
        begins, cells, before, end = offsets[matrices] // ALIGNMENT, -(-sizes // ALIGNMENT), (-1, -1), 0
        for number in np.flatnonzero(self.blocks[:, 0] == 0).tolist():
            _, command, _, _, _, iteration = self.blocks[number].tolist()
            alive = (spans[:, 0] <= command) & (command <= spans[:, 1])
            first, last = begins[alive], begins[alive] + cells[matrices[alive]]
            if before == (command, iteration):  # behind what this iteration has taken before
                first, last = np.append(first, 0), np.append(last, end)
            start = lowest_gap(first, last, int(cells[number]))
            before, end = (command, iteration), start + int(cells[number])
            offsets[number] = start * ALIGNMENT
            num_bytes = max(num_bytes, end * ALIGNMENT)
        return offsets, num_bytes

    def meet(self) -> np.ndarray:
        """Returns which blocks must not share memory, (blocks, blocks)."""
        key, first, last, _, _, iteration = self.blocks.T
        both_scratch = (key[:, None] == 0) & (key == 0)
        return np.asarray(
            (first[:, None] <= last) & (last[:, None] >= first) & ~(both_scratch & (iteration[:, None] != iteration))
        )

    def placed(self, offsets: np.ndarray, num_bytes: int) -> Plan:
        """Returns the plan with the blocks at these offsets, in bytes."""
        return self.plan.changed(**self.places(self.plan.views.copy(), offsets, num_bytes))

    def places(self, views: np.ndarray, offsets: np.ndarray, num_bytes: int) -> dict[str, Any]:
        """Returns the fields of the plan that say where blocks lie, with these views, which are moved there."""
        spans = self.plan.spans.copy()
        # The offset of views outside of the arena is the last one.
        views[:, 1] += np.append(offsets, 0)[self.block_of_view] // self.element_bytes
        spans[:, 3] = offsets[self.blocks[:, 0] != 0]
        return {"num_bytes": num_bytes, "views": views, "spans": spans}
