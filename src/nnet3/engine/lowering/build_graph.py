"""build_graph: which cindexes a request involves and what each uses, by two sweeps over arrays of times.

Output rows t = 0..3 of y(t) = W [x(t-1), x(t)] + b involve 17 cindexes:

>>> from tests.lowering.examples import splice
>>> each = splice()
>>> print(build_graph(each.source, each.request))
17 cindexes, 16 dependencies, 5 provided
0..4: x [ (0, -1:3) ] provided
5..8: y_input [ (0, 0:3) ] uses x
9..12: y [ (0, 0:3) ] uses y_input
13..16: output [ (0, 0:3) ] uses y

Rows -1..3 of x are cindexes 0 to 4. The node that puts x(t-1) and x(t) side by side uses two of them a row:

>>> from tests.lowering.examples import splice
>>> number_cindexes(splice().sweeps).slots[1].tolist()
[[0, 1], [1, 2], [2, 3], [3, 4]]
"""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from nnet3.base.index import N
from nnet3.engine.lowering.classes import SequenceClasses
from nnet3.engine.lowering.explain import complain_not_computable
from nnet3.engine.lowering.graph import ComputationGraph, Ids
from nnet3.engine.lowering.slot_table import Mask, SlotTable
from nnet3.engine.lowering.source import GraphRules, LoweringRequest, NodeKind
from nnet3.engine.lowering.sweeps import Sweeps, finished_sweeps


def build_graph(source: GraphRules, request: LoweringRequest, sweeps: Sweeps | None = None) -> ComputationGraph:
    """Returns the cindexes of a request. What follows from the source alone is kept, so it must not change afterwards.

    `sweeps`: the finished sweeps for the request, if somebody has made them. Raises NotComputableError for outputs out
    of reach, RequestError for a recurrence that never ends and for indexes near the limits of int32.
    """
    sweeps = sweeps or finished_sweeps(source, request)
    if not all(rows.all() for rows in sweeps.outputs_computable()):
        complain_not_computable(sweeps)
    return number_cindexes(sweeps)


def computable_outputs(source: GraphRules, request: LoweringRequest) -> list[npt.NDArray[np.bool_]]:
    """Returns by requested output a mask of the computable rows, (rows,), of one row without samples."""
    sweeps = Sweeps(source, request)
    sweeps.run_computable()
    return sweeps.outputs_computable()


def number_cindexes(sweeps: Sweeps) -> ComputationGraph:
    """Returns the graph of the rows that are needed and of all that are given."""
    graph = _Numbering(sweeps, sweeps.classes).graph()
    if graph.multiplicity == 1:
        return graph
    return replace(graph, apart=lambda: _Numbering(sweeps, sweeps.classes.apart()).graph())


class _Numbering:
    """All rows of all nodes in one array, in the order of node, time, x, representative."""

    def __init__(self, sweeps: Sweeps, classes: SequenceClasses):
        self.ground, self.used = sweeps.ground, sweeps.computability.used
        self.classes, self.structure = classes, sweeps.structure
        self.num_representatives = len(self.classes.members)
        self.is_plain = self.num_representatives == self.classes.num_classes  # a representative for each class
        self._grid_rows = [0 if table is None else table.grid.num_rows for table in self.ground.tables]
        sizes = [rows * self.copies(node) for node, rows in enumerate(self._grid_rows)]
        self.offset: list[int] = [0, *itertools.accumulate(sizes)]
        pieces = [np.empty(0, bool)]
        pieces += [
            self._by_representative(node, rows).reshape(-1) for node, rows in enumerate(sweeps.need) if rows is not None
        ]
        flat = np.concatenate(pieces)
        self.is_given = np.zeros_like(flat)
        for node, rows in self.ground.given.items():
            self.is_given[self._range(node)] = self._by_representative(node, rows).reshape(-1)
        flat |= self.is_given
        counts = np.cumsum(flat, dtype=np.int32)
        self.ids: Ids = np.where(flat, counts - 1, np.int32(-1))
        self.rows = np.flatnonzero(flat)
        self.first: Ids = np.concatenate([np.zeros(1, np.int32), counts])[self.offset]

    def copies(self, node: int) -> int:
        return self.num_representatives if self.structure.has_samples[node] else 1

    def graph(self) -> ComputationGraph:
        structure = self.structure
        first = self.first.tolist()
        node = np.repeat(np.arange(len(first) - 1, dtype=np.int32), np.diff(self.first))
        is_input = self.is_given[self.rows]
        slots = []
        for number in range(len(first) - 1):
            rows = self.rows[first[number] : first[number + 1]]
            slots.append(self._slots(number, rows))
            single = structure.nodes[number].kind == NodeKind.PROVIDED and not structure.has_samples[number]
            if single:
                is_input[first[number] : first[number + 1]] = True
        all_samples = {}
        for number, name in enumerate(structure.slots):
            if first[number + 1] > first[number]:
                for position, source in name.all_samples:
                    chosen = self._by_representative(source, self.ground.samples[source]).reshape(-1)
                    all_samples[number, position] = self.ids[self._range(source)][chosen]
        return ComputationGraph(
            structure.names,
            node,
            self._indexes(node),
            is_input,
            self.first,
            slots,
            [each.operand for each in structure.slots],
            self.classes.members.shape[1],
            self.classes.members,
            all_samples,
        )

    def _range(self, node: int) -> slice:
        return slice(self.offset[node], self.offset[node + 1])

    def _by_representative(self, node: int, array: Mask) -> Mask:
        """Returns an array (times, xs, classes...) with the axis of classes replaced by one of representatives."""
        if self.is_plain or not self.structure.has_samples[node]:
            return array
        return array[:, :, self.classes.class_of_representative]

    def _indexes(self, node: Ids) -> npt.NDArray[np.int32]:
        """Returns the index of each cindex; `node` is the node of each cindex."""
        has_samples = np.array(self.structure.has_samples)
        row, copy = self.rows, np.zeros(1, np.intp)
        if self.num_representatives > 1:
            first_row = np.array([0, *itertools.accumulate(self._grid_rows)])
            copies = np.where(has_samples, self.num_representatives, 1)
            row, copy = np.divmod(self.rows - np.array(self.offset)[node], copies[node])
            row += first_row[node]
        tables = [table.grid.table() for table in self.ground.tables if table is not None]
        indexes = np.concatenate([np.empty((0, 3), np.int32), *tables]).take(row, axis=0)
        if self.num_representatives:
            indexes[:, N] = self.classes.members[copy, 0]
            if not has_samples.all():
                indexes[~has_samples[node], N] = 0
        return indexes

    # ---- slots ----

    def _slots(self, node: int, rows: npt.NDArray[np.intp]) -> Ids:
        """Returns the cindexes (rows, slots) that these rows use; `rows` are positions in the whole array."""
        num_slots = self.structure.slots[node].num_slots
        if num_slots == 0 or len(rows) == 0:
            return np.empty((len(rows), num_slots), np.int32)
        table, used = self.ground.table(node), self.used[node]
        result = self._all_slots(node, table, rows)
        if used is not None:
            uses = self._by_representative(node, used).reshape(-1, num_slots).take(rows - self.offset[node], axis=0)
            result = np.where(uses, result, np.int32(-1))
        if node in self.ground.given:
            result[self.is_given[rows]] = -1
        return result

    def _all_slots(self, node: int, table: SlotTable, rows: npt.NDArray[np.intp]) -> Ids:
        """Returns the cindexes of all slots, used or not; -1 for none."""
        result = np.full((len(rows), table.num_slots), -1, np.int32)
        row, copy = np.divmod(rows - self.offset[node], self.copies(node))
        time, x = np.divmod(row, table.grid.shape[1])
        for block in table.blocks:
            t = time + (block.other[0].start - block.own[0].start)
            at = x + (block.other[1].start - block.own[1].start)
            position = (t * self.ground.domain.grid(block.source).shape[1] + at) * self.copies(node) + copy
            result[:, block.slot] = self.ids.take(position + self.offset[block.source], mode="clip")
        for gather in table.gathers:
            entry = gather.position[row]
            position = entry
            if self.structure.has_samples[gather.source]:
                position = entry * self.copies(node) + copy[:, np.newaxis]
            found = np.where(entry >= 0, self.ids.take(position + self.offset[gather.source], mode="clip"), -1)
            result[:, gather.slots] = np.maximum(result[:, gather.slots], found)
        for slot, source in table.singles:
            result[:, slot] = self.ids[self.offset[source]]
        return result
