"""The sweep from the outputs down, which finds the needed rows along the slots that computable rows use.

Of x at t = -3..3, outputs at t = 0..3 need those from t = -1 on:

>>> from tests.lowering.examples import splice
>>> sweeps = splice(given=range(-3, 4)).sweeps
>>> need = needed_rows(sweeps.ground, sweeps.computability.used, sweeps.asked)
>>> sweeps.ground.domain.grid(0).times[need[0][:, 0, 0]].tolist()
[-1, 0, 1, 2, 3]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count

import numpy as np

from nnet3.engine.ir.objects import present
from nnet3.engine.lowering.slot_table import Mask, SweepGround
from nnet3.engine.schedule import DirectedGraph, reached

_ROUNDS = 8  # for all rows of a recurrence at once; most need no more


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
        everything = {node: need for node, need in enumerate(self.need) if need is not None}
        for number in range(len(structure.components) - 1, -1, -1):
            nodes = structure.components[number]
            if self.ground.tables[nodes[0]] is None:
                continue
            others = everything
            if structure.is_recurrent[number]:
                self._settle(nodes)
                others = {node: need for node, need in everything.items() if node not in nodes}
            for node in nodes:
                if self._need(node).any():
                    self._mark(node, others)
        return self.need

    def _need(self, node: int) -> Mask:
        return present(self.need[node])

    def _settle(self, nodes: Sequence[int]) -> None:
        """Mark what the nodes of a recurrence need of each other, round after round; in a long one also row by row."""
        marked, inside = dict.fromkeys(nodes, 0), {node: self._need(node) for node in nodes}  # marks never go
        for number in count():
            if number == _ROUNDS:
                self._walk(inside)
            for node in reversed(nodes):
                before, marked[node] = marked[node], int(np.count_nonzero(inside[node]))
                if marked[node] != before:
                    self._mark(node, inside)
            if all(np.count_nonzero(need) == marked[node] for node, need in inside.items()):
                return

    def _walk(self, inside: Mapping[int, Mask]) -> None:
        """Mark the rows of the nodes `inside` to which uses lead from the marked ones."""
        end, rows = 0, dict[int, np.ndarray]()
        for node, need in inside.items():
            end += need.size
            rows[node] = np.arange(end - need.size, end).reshape(need.shape)
        arcs = [np.zeros((2, 0), np.int64), *(each for node in rows for each in self._arcs(node, rows))]
        graph = DirectedGraph.from_edges(end, *np.concatenate(arcs, axis=1))
        first, sources = graph.indptr.tolist(), graph.successors.tolist()
        is_needed = np.concatenate([need.reshape(-1) for need in inside.values()])
        is_needed[reached(np.flatnonzero(is_needed).tolist(), lambda row: sources[first[row] : first[row + 1]])] = True
        for node, need in inside.items():
            need[:] = is_needed[rows[node]]

    def _arcs(self, node: int, rows: Mapping[int, np.ndarray]) -> Iterator[np.ndarray]:
        """Yields arcs from rows of a node to the rows in use, (2, arcs). `rows`: the numbers of rows, by node."""
        table, used, own = self.ground.table(node), self.used[node], rows[node]
        uses = np.ones((*own.shape, table.num_slots), bool) if used is None else used
        if node in self.ground.given:
            uses = uses & ~self.ground.given[node][..., np.newaxis]
        for block in table.blocks:
            if block.source in rows:
                chosen = uses[(*block.own, slice(None), block.slot)]
                yield np.stack([own[block.own][chosen], rows[block.source][block.other][chosen]])
        for gather in table.gathers:
            if gather.source in rows:
                row, slot = np.nonzero(gather.position >= 0)
                chosen = uses.reshape(-1, *uses.shape[2:])[row, :, gather.slots[slot]]
                source = rows[gather.source].reshape(-1, rows[gather.source].shape[2])[gather.position[row, slot]]
                ends = own.reshape(-1, own.shape[2])[row], np.broadcast_to(source, chosen.shape)
                yield np.stack([each[chosen] for each in ends])

    def _mark(self, node: int, need: Mapping[int, Mask]) -> None:
        """Mark the rows that the needed rows of a node use, of the nodes in `need`."""
        table, rows, used = self.ground.table(node), self._need(node), self.used[node]
        if node in self.ground.given:
            rows = rows & ~self.ground.given[node]
        marks = None if used is None else used & rows[..., np.newaxis]
        for block in table.blocks:
            if block.source in need:
                mark = rows[block.own] if marks is None else marks[(*block.own, slice(None), block.slot)]
                need[block.source][block.other] |= mark
        for gather in table.gathers:
            if gather.source in need:
                mark = np.repeat(rows[..., np.newaxis], len(gather.slots), -1) if marks is None else marks
                slots = mark.reshape(table.grid.num_rows, rows.shape[-1], mark.shape[-1])
                slots = slots if marks is None else slots[:, :, gather.slots]
                row, copy, position = np.nonzero(slots & (gather.position >= 0)[:, np.newaxis])
                own = need[gather.source]
                own.reshape(-1, own.shape[-1])[gather.position[row, position], copy % own.shape[-1]] = True
        for slot, source in table.singles:
            if source in need and (rows if marks is None else marks[..., slot]).any():
                need[source][:] = True
        for source in table.all_samples:
            if source in need and rows.any():
                need[source][:] |= self.ground.samples[source]
