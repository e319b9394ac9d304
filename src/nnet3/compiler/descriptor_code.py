"""Commands that gather the rows of a descriptor, and those that send its derivative back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from nnet3.compiler.layout import Layout
from nnet3.compiler.locations import LocationList, as_block, pack_locations, runs_of, split_locations
from nnet3.computation.commands import (
    AddRowRanges,
    AddRows,
    AddRowsMulti,
    AddToRowsMulti,
    AllocMatrix,
    Command,
    CopyRows,
    CopyRowsMulti,
    DeallocMatrix,
    MatrixAdd,
    MatrixCopy,
    SetConst,
)
from nnet3.computation.computation import NnetComputation
from nnet3.nnet.nodes import DescriptorNode
from nnet3.schedule import NO_ITEM, Step

if TYPE_CHECKING:
    from nnet3.compiler.graph import ComputationGraph
    from nnet3.nnet import Nnet
    from nnet3.nnet.descriptor import SumDescriptor


class DescriptorCode:
    """Writes the commands of descriptor steps into a computation."""

    def __init__(self, nnet: Nnet, graph: ComputationGraph, layout: Layout, computation: NnetComputation):
        self.nnet, self.graph, self.layout, self.computation = nnet, graph, layout, computation

    def forward(self, step: Step, value: int) -> list[Command]:
        """Commands that compute a descriptor step whose value is the (zeroed) sub-matrix `value`."""
        commands: list[Command] = []
        for part, target, lists, scales in self._parts(step, value):
            if part.constant != 0.0:
                commands.append(SetConst(target, part.constant))
            packed = pack_locations(lists) if len(set(scales.values())) <= 1 else None
            if packed is None:
                for each in lists:
                    fresh = part.constant == 0.0 and each is lists[0]
                    commands.append(self._gather(target, each, scales[each.node], fresh))
                continue
            scale = next(iter(scales.values()))
            for number, (nodes, rows) in enumerate(packed):
                fresh = part.constant == 0.0 and number == 0
                commands.append(self._gather_multi(target, nodes, rows, scale, fresh))
        return commands

    def backward(self, step: Step, deriv: int) -> list[Command]:
        """Commands that add the step's derivative to the derivatives of what it was computed from."""
        commands: list[Command] = []
        for _, source, all_lists, scales in self._parts(step, deriv, only_deriv_needed=True):
            packed = pack_locations(all_lists) if len(set(scales.values())) <= 1 else None
            if packed is not None and all(_unique_pairs(nodes, rows) for nodes, rows in packed):
                scale = next(iter(scales.values()))
                for nodes, rows in packed:
                    table = self._multi_table(self.layout.node_deriv, nodes, rows)
                    commands.append(AddToRowsMulti(source, table, scale))
                continue
            for each in all_lists:
                commands += self._scatter(source, each, scales[each.node])
        return commands

    # ---- what the parts are made of ----

    def _parts(
        self, step: Step, whole: int, *, only_deriv_needed: bool = False
    ) -> list[tuple[SumDescriptor, int, list[LocationList], dict[int, float]]]:
        """Each part of the descriptor: itself, its columns of `whole`, its location lists, the scale of each node."""
        node = self.nnet.nodes[step.node]
        assert isinstance(node, DescriptorNode)
        items = self._slot_items(step, only_deriv_needed)
        source_node = np.where(items >= 0, self.graph.node[items], -1)
        source_row = np.where(items >= 0, self.layout.row_of_item[items], -1)
        result, column = [], 0
        dims = node.descriptor.part_dims(self.nnet.node_dim)
        for part, slots, dim in zip(node.descriptor.parts, node.descriptor.part_slots(), dims, strict=True):
            block = self.computation.new_submatrix(whole, col_offset=column, num_cols=dim)
            lists = split_locations(source_node[:, slots], source_row[:, slots])
            scales = {self.nnet.node_number[r.node]: r.scale for f in part.forwards() for r in f.nodes()}
            used = {each.node for each in lists}
            result.append((part, block, lists, {n: s for n, s in scales.items() if n in used}))
            column += dim
        return result

    def _slot_items(self, step: Step, only_deriv_needed: bool) -> np.ndarray:
        """Cindexes (rows, slots) used by each row of the step; -1 for none, and in rows of padding."""
        slots = self.graph.slots[step.node]
        real = step.items != NO_ITEM
        items = np.full((len(step.items), slots.shape[1]), -1, np.int32)
        items[real] = slots[step.items[real] - self.graph.first[step.node]]
        if only_deriv_needed:
            items[(items >= 0) & ~self.layout.item_deriv_needed[items]] = -1
        return items

    # ---- forward ----

    def _gather(self, target: int, each: LocationList, scale: float, fresh: bool) -> Command:
        """Copy (if nothing has been written to the target yet) or add the rows of one source."""
        computation, source = self.computation, self.layout.node_value[each.node]
        block = as_block(each.rows)
        if block is not None:
            dest = computation.new_submatrix(target, block.dest, block.count)
            rows = computation.new_submatrix(source, block.source, block.count)
            covers = fresh and block.count == len(each.rows)
            return MatrixCopy(dest, rows, scale) if covers else MatrixAdd(dest, rows, scale)
        taken = each.rows[each.valid]
        low, high = int(taken.min()), int(taken.max())
        rows = computation.new_submatrix(source, low, high - low + 1)
        table = self._index_table(np.where(each.valid, each.rows - low, -1))
        return CopyRows(target, rows, table, scale) if fresh else AddRows(target, rows, table, scale)

    def _gather_multi(self, target: int, nodes: np.ndarray, rows: np.ndarray, scale: float, fresh: bool) -> Command:
        sources = np.unique(nodes[nodes >= 0])
        if len(sources) == 1:
            return self._gather(target, LocationList(int(sources[0]), rows), scale, fresh)
        table = self._multi_table(self.layout.node_value, nodes, rows)
        return CopyRowsMulti(target, table, scale) if fresh else AddRowsMulti(target, table, scale)

    # ---- backward ----

    def _scatter(self, source: int, each: LocationList, scale: float) -> list[Command]:
        """Add rows of `source` to the rows of one node's derivative that they came from."""
        computation, deriv = self.computation, self.layout.node_deriv[each.node]
        block = as_block(each.rows)
        if block is not None:
            rows = computation.new_submatrix(source, block.dest, block.count)
            return [MatrixAdd(computation.new_submatrix(deriv, block.source, block.count), rows, scale)]
        taken = each.rows[each.valid]
        low, high = int(taken.min()), int(taken.max())
        dest = computation.new_submatrix(deriv, low, high - low + 1)
        if len(np.unique(taken)) == len(taken):
            inverse = np.full(high - low + 1, -1, np.int32)
            inverse[taken - low] = np.flatnonzero(each.valid)
            return [AddRows(dest, source, self._index_table(inverse), scale)]
        ranges = runs_of(each.rows)
        if ranges is not None:
            return [AddRowRanges(dest, source, self._range_table(ranges), scale)]
        return self._scatter_sorted(source, each, dest, scale)

    def _scatter_sorted(self, source: int, each: LocationList, dest: int, scale: float) -> list[Command]:
        """Rows that go to the same place do not stand together: bring them together in a matrix of their own first."""
        computation = self.computation
        valid = np.flatnonzero(each.valid)
        order = valid[np.argsort(each.rows[valid], kind="stable")]
        ranges = runs_of(each.rows[order])
        assert ranges is not None, "sorted rows stand together"
        gathered = computation.new_matrix(len(order), computation.submatrices[source].num_cols)
        return [
            AllocMatrix(gathered, zeroed=True),
            CopyRows(gathered, source, self._index_table(order)),
            AddRowRanges(dest, gathered, self._range_table(ranges), scale),
            DeallocMatrix(gathered),
        ]

    # ---- side tables ----

    def _index_table(self, rows: np.ndarray) -> int:
        self.computation.index_tables.append(rows.astype(np.int32))
        return len(self.computation.index_tables) - 1

    def _range_table(self, ranges: np.ndarray) -> int:
        self.computation.range_tables.append(ranges)
        return len(self.computation.range_tables) - 1

    def _multi_table(self, matrix_of_node: Sequence[int], nodes: np.ndarray, rows: np.ndarray) -> int:
        """A table of (sub-matrix, row), each sub-matrix being just the rows of a node that are named."""
        table = np.full((len(rows), 2), -1, np.int32)
        for node in np.unique(nodes[nodes >= 0]).tolist():
            here = nodes == node
            low, high = int(rows[here].min()), int(rows[here].max())
            table[here, 0] = self.computation.new_submatrix(matrix_of_node[node], low, high - low + 1)
            table[here, 1] = rows[here] - low
        self.computation.multi_tables.append(table)
        return len(self.computation.multi_tables) - 1


def _unique_pairs(nodes: np.ndarray, rows: np.ndarray) -> bool:
    """Whether no (node, row) is named twice."""
    valid = nodes >= 0
    keys = nodes[valid].astype(np.int64) << 32 | rows[valid]
    return len(np.unique(keys)) == len(keys)
