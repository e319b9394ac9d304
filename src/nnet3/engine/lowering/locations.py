"""Storage of values and derivatives: rows and columns of a matrix.

A node has a matrix of its own unless the node is a view, or a gathered node made only of rows of one source in order.
In a recurrent epoch, rows that nobody needs once the next step of the node begins share storage with the next step.

In h(t) = W (x(t) + h(t-1)) + b the output (node 3) consists of the rows of h (node 2). Without a backward pass the four
sums (node 1) share one row:

>>> from tests.lowering.examples import loop
>>> values = loop(backward=False).layout.values
>>> values.storage[3]
RowStorage(root=2, row_shift=0, col_offset=0)
>>> values.physical_row[1].tolist()
[0, 0, 0, 0]
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from nnet3.base.index import NO_TIME, T, concatenate_ranges
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.program_tables import MatrixInfo, SubMatrix
from nnet3.engine.lowering.reading import RowsOf
from nnet3.engine.lowering.schedule import Schedule
from nnet3.engine.lowering.source import NodeKind


class RowStorage(NamedTuple):
    """Row r of a node is row r + row_shift of the node `root`, from column `col_offset` on."""

    root: int
    row_shift: int = 0
    col_offset: int = 0


def find_storage(schedule: Schedule, views: Mapping[int, RowsOf]) -> list[RowStorage]:
    """Returns the storage of each node. `views`: gathered nodes that lie in another node's matrix."""
    known: dict[int, RowStorage] = {}

    def storage_of(node: int) -> RowStorage:
        if node not in known:
            known[node] = RowStorage(node)  # stands if nodes see nothing but each other
            known[node] = found(node)
        return known[node]

    def found(node: int) -> RowStorage:
        if schedule.nodes[node].kind is NodeKind.VIEW:
            seen = storage_of(schedule.nodes[node].operands[0].node)
            return RowStorage(seen.root, seen.row_shift, seen.col_offset + schedule.nodes[node].col_offset)
        if node in views:
            seen = storage_of(views[node].node)
            return RowStorage(seen.root, seen.row_shift + views[node].first, seen.col_offset)
        return RowStorage(node)

    return [storage_of(node) for node in range(len(schedule.nodes))]


@dataclass(eq=False)
class NodeMatrices:
    """The matrices of values, or of derivatives. `matrix[root]` is a sub-matrix as large as its matrix.

    `shared`: roots where all steps use one set of rows; `physical_row[root]` (rows,): the physical row of every row.
    Two steps of two rows each have physical rows 0, 1, 0, 1.
    """

    schedule: Schedule
    computation: NnetComputation
    is_deriv: bool
    storage: list[RowStorage]
    shared: Collection[int] = ()
    matrix: dict[int, int] = field(default_factory=dict)
    physical_row: dict[int, np.ndarray] = field(default_factory=dict)
    _blocks: dict[tuple[int, int, int], int] = field(default_factory=dict)
    _places: dict[int, tuple[int, int, int, int, int, list[int]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for root in self.shared:
            counts = [self.schedule.steps[position].num_rows for position in self.schedule.steps_of_node[root]]
            self.physical_row[root] = concatenate_ranges(0, np.array(counts))

    def declare(self, root: int) -> None:
        """Add a matrix for a node, with the node's rows, or with the rows of the largest step if steps share rows.

        Shared rows belong to no time: the information about the matrix has t = NO_TIME.
        """
        schedule, node = self.schedule, self.schedule.nodes[root]
        rows, table = schedule.num_rows(root), None
        if root in self.physical_row:
            step = max((schedule.steps[p] for p in schedule.steps_of_node[root]), key=lambda each: each.num_rows)
            rows, table = step.num_rows, schedule.step_indexes(step)
            table[:, T] = NO_TIME
        elif node.num_rows is None:
            table = schedule.index_table(root)
        info = MatrixInfo(node.name, self.is_deriv, table)
        self.matrix[root] = self.computation.new_matrix(rows * schedule.multiplicity(root), node.num_cols, info)

    def bind(self, root: int, memory: str) -> None:
        """Add a matrix that lies in memory outside; only derivatives are written there."""
        node = self.schedule.nodes[root]
        assert node.num_rows is not None
        bound = self.computation.new_outside(memory, node.num_rows, node.num_cols, writable=self.is_deriv)
        self.matrix[root] = bound

    def block(self, node: int, first: int, count: int) -> int:
        """Returns the sub-matrix of rows [first, first + count) of a node; they must lie one after another."""
        key = (node, first, count)
        found = self._blocks.get(key)
        if found is None:
            matrix, row_shift, col_offset, cols, m, physical_row = self._places.get(node) or self._place(node)
            start = physical_row[first + row_shift] if physical_row else first + row_shift
            found = self.computation.find_or_add(SubMatrix(matrix, start * m, count * m, col_offset, cols))
            self._blocks[key] = found
        return found

    def _place(self, node: int) -> tuple[int, int, int, int, int, list[int]]:
        """Returns the matrix of a node, its storage in it, the rows that each row stands for, and physical rows."""
        (root, row_shift, col_offset), schedule = self.storage[node], self.schedule
        matrix = self.computation.submatrices[self.matrix[root]].matrix
        rows = self.physical_row[root].tolist() if root in self.physical_row else []
        found = matrix, row_shift, col_offset, schedule.nodes[node].num_cols, schedule.multiplicity(root), rows
        return self._places.setdefault(node, found)

    def whole(self, node: int) -> int:
        """Returns the sub-matrix of all rows of a node."""
        return self.block(node, 0, self.schedule.num_rows(node))

    def rows(self, node: int, rows: np.ndarray) -> np.ndarray:
        """Returns the root's rows for rows of a node, members included, (rows * multiplicity,); -1 stays."""
        own = self.storage[node]
        shifted = rows + own.row_shift
        if own.root in self.physical_row:
            shifted = self.physical_row[own.root][shifted]
        m = self.schedule.multiplicity(own.root)
        expanded = (shifted[:, np.newaxis] * m + np.arange(m)).reshape(-1)
        return np.where(np.repeat(rows >= 0, m), expanded, -1)

    def columns(self, node: int) -> int:
        """Returns the sub-matrix of all rows of the root's matrix, in the columns of this node."""
        own = self.storage[node]
        return self.computation.new_submatrix(
            self.matrix[own.root], col_offset=own.col_offset, num_cols=self.schedule.nodes[node].num_cols
        )
