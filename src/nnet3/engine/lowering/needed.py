"""The sweep from the outputs down, which finds the needed rows along the slots that computable rows use.

Of x at t = -3..3, outputs at t = 0..3 need those from t = -1 on:

>>> from tests.lowering.examples import splice
>>> sweeps = splice(given=range(-3, 4)).sweeps
>>> need = needed_rows(sweeps.ground, sweeps.computability.used, sweeps.asked)
>>> sweeps.ground.domain.grid(0).times[need[0][:, 0, 0]].tolist()
[-1, 0, 1, 2, 3]
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from nnet3.engine.lowering.rounds import NEVER, Ranks, Rounds
from nnet3.engine.lowering.slot_table import Mask, SweepGround


def needed_rows(ground: SweepGround, used: Sequence[Mask | None], wanted: Mapping[int, Mask]) -> list[Mask | None]:
    """Returns the rows `wanted` and all rows used for `wanted`, by node (times, xs, classes); None outside the domain.

    `used`: as in Computability, of any rows; given rows use nothing.
    """
    return _NeedSweep(ground, used).run(wanted)


class _NeedSweep:
    def __init__(self, ground: SweepGround, used: Sequence[Mask | None]):
        self.ground, self.used = ground, used
        self.need = [None if table is None else ground.empty(node) for node, table in enumerate(ground.tables)]

    def run(self, wanted: Mapping[int, Mask]) -> list[Mask | None]:
        for node, rows in wanted.items():
            self._need(node)[:] |= rows
        structure = self.ground.domain.structure
        for number in range(len(structure.components) - 1, -1, -1):
            nodes = structure.components[number]
            if self.ground.tables[nodes[0]] is None:
                continue
            if structure.is_recurrent[number]:
                self._settle(nodes)
            elif self._need(nodes[0]).any():
                self._push(nodes[0], ())
        return self.need

    def _need(self, node: int) -> Mask:
        need = self.need[node]
        assert need is not None
        return need

    def _settle(self, nodes: Sequence[int]) -> None:
        """Push what is needed round a recurrence until nothing changes, then out of it."""
        outside = set(range(len(self.need))) - set(nodes)
        pushed = {node: np.zeros_like(self._need(node)) for node in nodes}
        has_samples = self.ground.domain.structure.has_samples
        rounds = Rounds(nodes[::-1]) if all(has_samples[node] for node in nodes) else None
        changed = True
        while changed:
            changed = False
            if rounds is not None:
                rounds.begin()
            for node in reversed(nodes):
                need = self._need(node)
                if rounds is not None:
                    rounds.add(node, pushed[node], need)
                if not np.array_equal(need, pushed[node]):
                    pushed[node] = need.copy()
                    self._push(node, outside)
                    changed = True
            if changed and rounds is not None and rounds.is_time_to_guess:
                self._foresee(rounds)
        for node in nodes:
            if pushed[node].any():
                self._push(node, nodes)

    def _foresee(self, rounds: Rounds) -> None:
        """Add the rows of coming rounds, if foreseeable."""
        ranks = rounds.guess({node: self._need(node) for node in rounds.nodes})
        if ranks is not None:
            for node, rows in rounds.accept(ranks, self._proved).items():
                self._need(node)[:] |= rows

    def _proved(self, node: int, ranks: Mapping[int, Ranks]) -> Mask:
        """Returns the rows of a node that rows of lower rank use, (times, xs, classes)."""
        own = ranks[node]
        least = np.full_like(own, NEVER)
        for user in self.ground.domain.structure.users_inside[node]:
            table, used, rank = self.ground.table(user), self.used[user], ranks[user]
            if user in self.ground.given:
                rank = np.where(self.ground.given[user], NEVER, rank)
            for block in table.blocks:
                if block.source == node:
                    found = rank[block.own]
                    if used is not None:
                        found = np.where(used[(*block.own, slice(None), block.slot)], found, NEVER)
                    least[block.other] = np.minimum(least[block.other], found)
            for gather in table.gathers:
                if gather.source == node:
                    row, slot = np.nonzero(gather.position >= 0)
                    found = rank.reshape(table.grid.num_rows, -1)[row]
                    if used is not None:
                        uses = used.reshape(table.grid.num_rows, -1, table.num_slots)[row, :, gather.slots[slot]]
                        found = np.where(uses, found, NEVER)
                    np.minimum.at(least.reshape(-1, least.shape[2]), gather.position[row, slot], found)
        return least < own

    def _push(self, node: int, but: Collection[int]) -> None:
        """Mark the rows that the needed rows of a node use, except rows of the nodes `but`."""
        table, rows, used = self.ground.table(node), self._need(node), self.used[node]
        if node in self.ground.given:
            rows = rows & ~self.ground.given[node]
        marks = None if used is None else used & rows[..., np.newaxis]
        for block in table.blocks:
            if block.source not in but:
                mark = rows[block.own] if marks is None else marks[(*block.own, slice(None), block.slot)]
                self._need(block.source)[block.other] |= mark
        for gather in table.gathers:
            if gather.source not in but:
                mark = np.repeat(rows[..., np.newaxis], len(gather.slots), -1) if marks is None else marks
                slots = mark.reshape(table.grid.num_rows, rows.shape[-1], mark.shape[-1])
                slots = slots if marks is None else slots[:, :, gather.slots]
                row, copy, position = np.nonzero(slots & (gather.position >= 0)[:, np.newaxis])
                need = self._need(gather.source)
                need.reshape(-1, need.shape[-1])[gather.position[row, position], copy % need.shape[-1]] = True
        for slot, source in table.singles:
            if source not in but and (rows if marks is None else marks[..., slot]).any():
                self._need(source)[:] = True
        for source in table.all_samples:
            if source not in but and rows.any():
                self._need(source)[:] |= self.ground.samples[source]
