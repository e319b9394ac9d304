"""Schedule: the order of work. A step is a range of rows of one node's matrix, computed at once.

All steps of a node share one matrix and lie one after another in its rows. Outside recurrences a node is one step; in a
recurrent epoch a node has a step per level (see `levels`), rows of a step ordered by t, x, n. Rows stand for
representatives of sequences; a row becomes as many rows as the class has members.

h(t) = W (x(t) + h(t-1)) + b takes for each of the four rows a step of node 1, the sum, and a step of node 2, h:

>>> from tests.lowering.examples import loop
>>> steps = loop().schedule
>>> for step in steps.steps[:4]:
...     print(step)
Step(node=1, first=0, num_rows=1)
Step(node=2, first=0, num_rows=1)
Step(node=1, first=1, num_rows=1)
Step(node=2, first=1, num_rows=1)
>>> steps.items[2].tolist()  # the cindexes of the four rows of h
[8, 9, 10, 11]
>>> steps.epoch_steps[0]
EpochSteps(first=0, end=8, is_recurrent=True)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from nnet3.base.index import NO_TIME, IndexTable, format_indexes
from nnet3.engine.lowering.graph import NO_ITEM, ComputationGraph
from nnet3.engine.lowering.source import GraphSource, LoweringRequest, NodeKind, SourceNode


class Step(NamedTuple):
    """Rows [first, first + num_rows) of a node's matrix."""

    node: int
    first: int
    num_rows: int


class EpochSteps(NamedTuple):
    """Steps [first, end) of one epoch."""

    first: int
    end: int
    is_recurrent: bool


@dataclass(frozen=True, eq=False)
class Schedule:
    """The steps of a computation, and the rows of the matrices computed by the steps.

    `items[node]` (rows,): the cindex of each row of the node's matrix (NO_ITEM: padding; views have no rows).
    `num_given[node]`: the number of provided rows, the first rows. `row_of_item` (cindexes,): the row of each cindex in
    its node's matrix, for a view in the matrix of the node under the view; a cindex of an INDEXED operand may be in
    several rows.
    """

    graph: ComputationGraph
    nodes: Sequence[SourceNode]
    items: list[np.ndarray]
    num_given: list[int]
    steps: list[Step]
    row_of_item: np.ndarray
    epoch_steps: list[EpochSteps]
    #: Slots (rows, 1) of gathered nodes that stand between a kernel and an operand whose rows lie in another order.
    detour_slots: dict[int, np.ndarray] = field(default_factory=dict)
    _operand_rows: dict[tuple[int, int], np.ndarray] = field(default_factory=dict, init=False)
    _position_of_row: dict[int, np.ndarray] = field(default_factory=dict, init=False)
    _index_tables: dict[int, IndexTable] = field(default_factory=dict, init=False)

    def num_rows(self, node: int) -> int:
        """Returns the number of rows of the node's matrix, one for each representative."""
        return len(self.items[node])

    def is_used(self, node: int) -> bool:
        """True if the node has any rows, or looks at some."""
        first = self.graph.first
        return node in self.detour_slots or bool(first[node] < first[node + 1])

    def whole(self, node: int) -> Step:
        """Returns all rows of a node, or of what a view looks at."""
        return Step(node, 0, self.num_rows(self.seen(node)))

    def seen(self, node: int) -> int:
        """Returns the node whose rows a view looks at; for any other node the node itself."""
        while self.nodes[node].kind is NodeKind.VIEW:
            node = self.nodes[node].operands[0].node
        return node

    def multiplicity(self, node: int) -> int:
        """Returns how many rows of the program's matrix each row of a node stands for."""
        return self.nodes[node].num_rows or self.graph.multiplicity

    def slots_of_rows(self, node: int) -> np.ndarray:
        """Returns the cindexes that each row uses, (rows, slots); -1 for none and in rows of padding."""
        if node in self.detour_slots:
            return self.detour_slots[node]
        items = self.items[node]
        slots = self.graph.slots[node]
        if self.graph.first[node + 1] - self.graph.first[node] == len(items) and _counts_up(items):
            return slots
        result = np.full((len(items), slots.shape[1]), NO_ITEM, np.int32)
        real = items != NO_ITEM
        result[real] = slots[items[real] - self.graph.first[node]]
        return result

    def index_table(self, node: int) -> IndexTable:
        """Returns the indexes of the matrix's rows, members included; padding rows have t = NO_TIME."""
        if node not in self._index_tables:
            self._index_tables[node] = expanded_indexes(self.graph, self.items[node])
        return self._index_tables[node]

    def step_indexes(self, step: Step) -> IndexTable:
        """Returns the indexes of these rows of a node, or of what a view looks at, members included."""
        items = self.items[self.seen(step.node)]
        return expanded_indexes(self.graph, items[step.first : step.first + step.num_rows])

    def operand_rows(self, node: int, number: int) -> np.ndarray:
        """Returns for each row of a kernel node the row of its ROW operand `number`, (rows,); -1 for provided rows."""
        if (node, number) not in self._operand_rows:
            self._operand_rows[node, number] = self._find_operand_rows(node, number)
        return self._operand_rows[node, number]

    def _find_operand_rows(self, node: int, number: int) -> np.ndarray:
        if self.nodes[node].operands[number].node in self.detour_slots:
            return np.arange(self.num_rows(node))
        slot = int(np.flatnonzero(self.graph.slot_operand[node] == number)[0])
        items = self.slots_of_rows(node)[:, slot]
        return np.where(items >= 0, self.row_of_item[items], -1)

    def position_of_row(self, node: int) -> np.ndarray:
        """Returns the position of each row's computing step, (computed rows,)."""
        if node not in self._position_of_row:
            positions = self.steps_of_node[node]
            counts = [self.steps[position].num_rows for position in positions]
            self._position_of_row[node] = np.repeat(np.array(positions, np.int64), counts)
        return self._position_of_row[node]

    @cached_property
    def steps_of_node(self) -> list[list[int]]:
        """The positions of each node's steps."""
        result: list[list[int]] = [[] for _ in self.nodes]
        for position, step in enumerate(self.steps):
            result[step.node].append(position)
        return result

    def summary(self) -> str:
        """Returns the numbers of steps and epochs in words."""
        recurrent = sum(epoch.is_recurrent for epoch in self.epoch_steps)
        return f"{len(self.steps)} steps in {len(self.epoch_steps)} epochs, {recurrent} of them recurrent"

    def __str__(self) -> str:
        return self.text(max_items=6)

    def text(self, max_items: int | None = None) -> str:
        """Returns a line per step: the step's node, its rows, and the work done for the rows.

        `max_items`: how many ranges of indexes a line shows.
        """
        lines = [self.summary()]
        for position, step in enumerate(self.steps):
            node = self.nodes[step.node]
            rows = "once" if node.num_rows is not None else format_indexes(self.step_indexes(step), max_items)
            lines.append(f"step {position}: {node.name} {rows} {node.kind.value}{self._sources(node)}")
        return "\n".join(lines)

    def _sources(self, node: SourceNode) -> str:
        names = [self.nodes[operand.node].name for operand in node.operands]
        return f" from {', '.join(names)}" if names else ""


class LayoutTask(NamedTuple):
    """A source, a request and its schedule: what every stage of the layout begins with."""

    source: GraphSource
    request: LoweringRequest
    schedule: Schedule


def expanded_indexes(graph: ComputationGraph, items: np.ndarray) -> IndexTable:
    """Returns the indexes of all members of these cindexes, (rows * members, 3); NO_ITEM has t = NO_TIME."""
    table, padding = graph.expanded_indexes(items), items == NO_ITEM  # NO_ITEM finds the last cindex
    if padding.any():
        table[padding] = (0, NO_TIME, 0)
    return table.reshape(-1, 3)


def _counts_up(items: np.ndarray) -> bool:
    return len(items) == 0 or (items[0] != NO_ITEM and bool((items[1:] - items[:-1] == 1).all()))
