"""The rows that outputs require: from those that are not computable down to what is missing.

With x given at t = 0..3, the output at t = 0 fails; it requires x at t = -1 and 0:

>>> from tests.lowering.examples import splice
>>> sweeps = splice(given=range(4)).sweeps
>>> reached = Requirements(sweeps, {3: sweeps.asked[3] & ~sweeps.known(3)}).reached
>>> sweeps.ground.domain.grid(0).times[reached[0][:, 0, 0]].tolist()
[-1, 0]
"""

from __future__ import annotations

import numpy as np

from nnet3.lowering.needed import needed_rows
from nnet3.lowering.slot_table import Mask, SlotTable
from nnet3.lowering.source import NodeKind
from nnet3.lowering.sweeps import Sweeps

_MOST_WORK = 10**8


class Requirements:
    """The rows that failing outputs require, `reached[node]` (times, xs, classes); None outside the domain.

    `required[node]` (times, xs, classes, slots): slots without which a row is not computable even if all others are
    available; all slots of a row that lacks something but no single slot. A row that lacks an input itself requires
    only that, not what its recurrence lacks further away. `refused[node]`: rows that nothing could make computable.
    """

    def __init__(self, sweeps: Sweeps, failing: dict[int, Mask]):
        self.sweeps = sweeps
        self.refused: dict[int, Mask] = {}
        self.required = [self._required(node) for node in range(len(sweeps.ground.tables))]
        self.reached = needed_rows(sweeps.ground, self.required, failing)

    def _required(self, node: int) -> Mask | None:
        table = self.sweeps.ground.tables[node]
        if table is None or table.num_slots == 0:
            return None
        known = self.sweeps.known(node)
        shape = (*known.shape, table.num_slots)
        if len(table.asked) == 0:
            return self._unless_it_lacks_an_input(table, np.ones(shape, bool))
        required = np.zeros(shape, bool)
        available = np.ones(shape, bool).reshape(-1, table.num_slots)
        rule = self.sweeps.computability.rule
        self.refused[node] = ~rule(node, table, available)[0].reshape(known.shape) & ~known
        if required.size * table.num_slots <= _MOST_WORK:
            for slot in range(table.num_slots):
                available[:, slot] = False
                required[..., slot] = ~rule(node, table, available)[0].reshape(known.shape)
                available[:, slot] = True
        required[~known & ~required.any(axis=-1)] = True
        required[self.refused[node]] = False
        return self._unless_it_lacks_an_input(table, required)

    def _unless_it_lacks_an_input(self, table: SlotTable, required: Mask) -> Mask:
        nodes = self.sweeps.structure.nodes
        from_input, computable = np.zeros_like(required), np.zeros_like(required)
        copies = required.shape[2]
        for block in table.blocks:
            own = (*block.own, slice(None), block.slot)
            computable[own] = self.sweeps.known(block.source)[block.other]
            from_input[own] = nodes[block.source].kind == NodeKind.PROVIDED
        for gather in table.gathers:
            valid = (gather.position >= 0)[:, np.newaxis]  # (rows, 1, slots)
            known = self.sweeps.known(gather.source)
            found = known.reshape(-1, known.shape[2])[gather.position].transpose(0, 2, 1) & valid
            computable.reshape(-1, copies, table.num_slots)[:, :, gather.slots] |= found
            if nodes[gather.source].kind == NodeKind.PROVIDED:
                from_input.reshape(-1, copies, table.num_slots)[:, :, gather.slots] |= valid
        for slot, _ in table.singles:
            computable[..., slot] = True
        lacking = (required & from_input & ~computable).any(axis=-1)
        required[lacking] &= (from_input | computable)[lacking]
        return required
