"""Gathering rows that follow no simple pattern: by tables of row numbers, members of each class included.

y(t) takes x at t rounded down to an even number: rows 0, 0, 1, 1 of m1. Backward, rows 0, 1 of the derivative m4 are
added up in row 0 of m2, rows 2, 3 in row 1:

>>> from tests.lowering.examples import halves
>>> each = halves()
>>> layout, node = each.layout, each.reading.gathered[1]
>>> (part, _, slots), code = node.parts[0], IrregularGather(each.computation, node)
>>> for command in code.forward(part, slots, layout.values.whole(1), layout.values, 0, 4):
...     print(command.text(each.computation))
m3.CopyRows(1, m1[0, 0:1, 1])
>>> for command in code.backward(part, slots, layout.derivs.whole(1), layout.derivs, 0, 4, each.needs.needed):
...     print(command.text(each.computation))
m2.AddRowRanges(1, m4, [0:1, 2:3])

A list holds for every row of the destination the row taken of a source, or -1 for none. Of four rows, the first two
take rows 5, 6 of node 1 and the last two row 0 of node 2:

>>> lists = split_locations(np.array([[1], [1], [2], [2]]), np.array([[5], [6], [0], [0]]))
>>> [(each.node, each.rows.tolist()) for each in lists]
[(1, [5, 6, -1, -1]), (2, [-1, -1, 0, 0])]
>>> as_block(lists[0].rows)
ShiftedBlock(dest=0, source=5, count=2)
>>> runs_of(lists[1].rows).tolist()  # row 0 of node 2 is taken by destination rows [2, 4)
[[2, 4]]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from nnet3.base.index import distinct
from nnet3.engine.ir.commands import (
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
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.program_tables import MatrixInfo
from nnet3.engine.lowering.locations import NodeMatrices
from nnet3.engine.lowering.reading import GatheredNode, SlotPattern
from nnet3.engine.lowering.schedule import Step
from nnet3.engine.lowering.source import GatherPart


@dataclass(frozen=True, eq=False)
class LocationList:
    """Row numbers (rows,) in the matrix of one node; -1 for none."""

    node: int
    rows: np.ndarray

    @property
    def valid(self) -> np.ndarray:
        return self.rows >= 0


def split_locations(nodes: np.ndarray, rows: np.ndarray) -> list[LocationList]:
    """Splits slots (rows, slots) of source node and row, -1 and -1 for none, into lists of one source.

    Slots keep separate lists, so a shifted copy stays a shifted copy; lists of one source without a common row are
    merged.
    """
    lists: list[LocationList] = []
    for slot in range(nodes.shape[1]):
        sources = distinct(nodes[:, slot])
        for source in sources[sources >= 0].tolist():
            here = np.where(nodes[:, slot] == source, rows[:, slot], -1)
            same = (i for i, known in enumerate(lists) if known.node == source)
            partner = next((i for i in same if not (lists[i].valid & (here >= 0)).any()), None)
            if partner is None:
                lists.append(LocationList(source, here))
            else:
                lists[partner] = LocationList(source, np.maximum(lists[partner].rows, here))
    return lists


def pack_locations(lists: list[LocationList]) -> list[tuple[np.ndarray, np.ndarray]] | None:
    """Packs the lists into fewer with several sources each, as (nodes, rows); returns None if that saves none."""
    if len(lists) < 2:
        return None
    nodes = np.stack([np.where(each.valid, each.node, -1) for each in lists], axis=1)
    rows = np.stack([each.rows for each in lists], axis=1)
    depth = int((nodes >= 0).sum(axis=1).max())
    if depth == len(lists):
        return None
    order = np.argsort(nodes < 0, axis=1, kind="stable")[:, :depth]
    nodes, rows = np.take_along_axis(nodes, order, axis=1), np.take_along_axis(rows, order, axis=1)
    return [(nodes[:, column], rows[:, column]) for column in range(depth)]


@dataclass(frozen=True)
class ShiftedBlock:
    """Destination rows [dest, dest + count) take source rows [source, source + count)."""

    dest: int
    source: int
    count: int


def as_block(rows: np.ndarray) -> ShiftedBlock | None:
    """Returns the list as one shifted block; None for a list in several pieces."""
    valid = np.flatnonzero(rows >= 0)
    if valid.size == 0:
        return None
    first, count = int(valid[0]), len(valid)
    if valid[-1] - first + 1 != count:
        return None
    taken = rows[first : first + count]
    return ShiftedBlock(first, int(taken[0]), count) if (np.diff(taken) == 1).all() else None


def runs_of(rows: np.ndarray) -> np.ndarray | None:
    """Returns the range [first, end) of rows that take each source row from the smallest to the largest, (rows, 2).

    None if some source row is taken by rows that do not stand together.
    """
    starts = np.flatnonzero(np.concatenate([[True], rows[1:] != rows[:-1]]))
    ends = np.append(starts[1:], len(rows))
    keep = rows[starts] >= 0
    starts, ends = starts[keep], ends[keep]
    sources = rows[starts]
    if len(distinct(sources)) != len(sources):
        return None
    low, high = int(sources.min()), int(sources.max())
    ranges = np.zeros((high - low + 1, 2), np.int32)
    ranges[sources - low, 0], ranges[sources - low, 1] = starts, ends
    return ranges


class IrregularGather:
    """Writes the commands of single parts and steps of a gathered node."""

    def __init__(self, computation: NnetComputation, gathered: GatheredNode) -> None:
        self.computation, self.gathered = computation, gathered

    def forward(
        self,
        part: GatherPart,
        slots: list[SlotPattern],
        target: int,
        values: NodeMatrices,
        first: int,
        count: int,
    ) -> Iterator[Command]:
        """Yields the commands that fill the part's columns (sub-matrix `target`) of rows [first, first + count)."""
        lists = self._locations(slots, values, first, count)
        scales = {each.node: part.scale_of_source.get(each.node, 1.0) for each in lists}
        filled = part.constant != 0.0 or not lists
        if filled:
            yield SetConst(target, part.constant)
        packed = pack_locations(lists) if len(set(scales.values())) == 1 else None
        if packed is None:
            for each in lists:
                yield self._gather(target, each, scales[each.node], values, add=filled)
                filled = True
        else:
            scale = next(iter(scales.values()))
            for nodes, rows in packed:
                yield self._gather_multi(target, nodes, rows, scale, values, add=filled)
                filled = True
        if part.default != 0.0:
            yield from self._set_default(part, slots, target, values, first, count)

    def backward(
        self,
        part: GatherPart,
        slots: list[SlotPattern],
        origin: int,
        derivs: NodeMatrices,
        first: int,
        count: int,
        needed: np.ndarray,
    ) -> Iterator[Command]:
        """Yields the commands that add the derivative of rows (sub-matrix `origin`) to the sources' derivatives."""
        lists = [each for each in self._locations(slots, derivs, first, count) if needed[each.node]]
        scales = {each.node: part.scale_of_source.get(each.node, 1.0) for each in lists}
        packed = pack_locations(lists) if len(set(scales.values())) == 1 else None
        root_of_node = np.array([own.root for own in derivs.storage])
        if packed is not None and all(_no_row_twice(root_of_node, nodes, rows) for nodes, rows in packed):
            scale = next(iter(scales.values()))
            for nodes, rows in packed:
                yield AddToRowsMulti(origin, self._multi_table(derivs, nodes, rows), scale)
            return
        for each in lists:
            yield from self._scatter(origin, each, scales[each.node], derivs, Step(self.gathered.number, first, count))

    def _locations(
        self, slots: list[SlotPattern], matrices: NodeMatrices, first: int, count: int
    ) -> list[LocationList]:
        """Returns the source rows, in the matrices of the roots, taken by the rows of a step, members included."""
        if not slots:
            return []
        m = matrices.schedule.multiplicity(self.gathered.number)
        nodes = np.empty((count * m, len(slots)), np.int64)
        rows = np.empty((count * m, len(slots)), np.int64)
        for number, slot in enumerate(slots):
            source, row = slot.source_node[first : first + count], slot.source_row[first : first + count]
            nodes[:, number] = np.repeat(np.where(row >= 0, source, -1), m)
            rows[:, number] = -1
            for each in distinct(source[row >= 0]).tolist():
                here = np.repeat(source == each, m)
                rows[here, number] = matrices.rows(each, np.where(source == each, row, -1))[here]
        return split_locations(nodes, rows)

    def _set_default(
        self, part: GatherPart, slots: list[SlotPattern], target: int, values: NodeMatrices, first: int, count: int
    ) -> Iterator[Command]:
        """Yields the commands that set rows without a source row to the default."""
        unused = np.ones(count, bool)
        for slot in slots:
            unused &= slot.source_row[first : first + count] < 0
        edges = np.flatnonzero(np.diff(np.concatenate([[0], unused.astype(np.int8), [0]])))
        m = values.schedule.multiplicity(self.gathered.number)
        for begin, end in zip(edges[0::2].tolist(), edges[1::2].tolist(), strict=True):
            rows = self.computation.new_submatrix(target, begin * m, (end - begin) * m)
            yield SetConst(rows, part.default + part.constant)

    # ---- forward ----

    def _gather(self, target: int, each: LocationList, scale: float, values: NodeMatrices, *, add: bool) -> Command:
        """Returns the command that adds or copies the rows of one source; rows without a source row become zero."""
        computation, source = self.computation, values.columns(each.node)
        block = as_block(each.rows)
        if block is not None and (add or block.count == len(each.rows)):
            dest = computation.new_submatrix(target, block.dest, block.count)
            rows = computation.new_submatrix(source, block.source, block.count)
            return MatrixAdd(dest, rows, scale) if add else MatrixCopy(dest, rows, scale)
        taken = each.rows[each.valid]
        low, high = int(taken.min()), int(taken.max())
        rows = computation.new_submatrix(source, low, high - low + 1)
        table = self.computation.new_index_table(np.where(each.valid, each.rows - low, -1))
        return AddRows(target, rows, table, scale) if add else CopyRows(target, rows, table, scale)

    def _gather_multi(
        self, target: int, nodes: np.ndarray, rows: np.ndarray, scale: float, values: NodeMatrices, *, add: bool
    ) -> Command:
        sources = distinct(nodes[nodes >= 0])
        if len(sources) == 1:
            return self._gather(target, LocationList(int(sources[0]), rows), scale, values, add=add)
        table = self._multi_table(values, nodes, rows)
        return AddRowsMulti(target, table, scale) if add else CopyRowsMulti(target, table, scale)

    # ---- backward ----

    def _scatter(
        self, origin: int, each: LocationList, scale: float, derivs: NodeMatrices, step: Step
    ) -> Iterator[Command]:
        """Yields the commands that add rows of `origin` to the derivative of one source, at the rows of `each`."""
        computation, deriv = self.computation, derivs.columns(each.node)
        block = as_block(each.rows)
        if block is not None:
            rows = computation.new_submatrix(origin, block.dest, block.count)
            yield MatrixAdd(computation.new_submatrix(deriv, block.source, block.count), rows, scale)
            return
        taken = each.rows[each.valid]
        low, high = int(taken.min()), int(taken.max())
        dest = computation.new_submatrix(deriv, low, high - low + 1)
        if len(distinct(taken)) == len(taken):
            inverse = np.full(high - low + 1, -1, np.int32)
            inverse[taken - low] = np.flatnonzero(each.valid)
            yield AddRows(dest, origin, self.computation.new_index_table(inverse), scale)
            return
        ranges = runs_of(each.rows)
        if ranges is None:
            name = derivs.schedule.nodes[step.node].name
            info = MatrixInfo(name, True, derivs.schedule.step_indexes(step))
            yield from self._scatter_sorted(origin, each, dest, scale, info)
        else:
            yield AddRowRanges(dest, origin, self.computation.new_range_table(ranges), scale)

    def _scatter_sorted(
        self, origin: int, each: LocationList, dest: int, scale: float, info: MatrixInfo
    ) -> Iterator[Command]:
        """Yields the commands of `_scatter` for rows of one destination that are apart.

        A temporary matrix brings the rows together. `info`: the node and the indexes of the rows of `origin`.
        """
        computation = self.computation
        valid = np.flatnonzero(each.valid)
        order = valid[np.argsort(each.rows[valid], kind="stable")]
        ranges = runs_of(each.rows[order])
        assert ranges is not None, "sorted rows stand together"
        assert info.indexes is not None
        sorted_rows = replace(info, indexes=info.indexes[order])
        gathered = computation.new_matrix(len(order), computation.submatrices[origin].num_cols, sorted_rows)
        yield AllocMatrix(gathered, zeroed=False)
        yield CopyRows(gathered, origin, self.computation.new_index_table(order))
        yield AddRowRanges(dest, gathered, self.computation.new_range_table(ranges), scale)
        yield DeallocMatrix(gathered)

    # ---- side tables ----

    def _multi_table(self, matrices: NodeMatrices, nodes: np.ndarray, rows: np.ndarray) -> int:
        """Returns a table of (sub-matrix, row); each sub-matrix is the stretch of a node's rows that are named."""
        table = np.full((len(rows), 2), -1, np.int32)
        for node in distinct(nodes[nodes >= 0]).tolist():
            here = nodes == node
            low, high = int(rows[here].min()), int(rows[here].max())
            table[here, 0] = self.computation.new_submatrix(matrices.columns(node), low, high - low + 1)
            table[here, 1] = rows[here] - low
        return self.computation.new_multi_table(table)


def _no_row_twice(root_of_node: np.ndarray, nodes: np.ndarray, rows: np.ndarray) -> bool:
    """True if no row of a matrix is named twice: two nodes may be columns, or rows, of one root, and overlap."""
    valid = nodes >= 0
    keys = root_of_node[nodes[valid]].astype(np.int64) << 32 | rows[valid]
    return len(distinct(keys)) == len(keys)
