"""First stage of the layout: the sources of the rows of gathered nodes, and the gathered nodes without a matrix.

Node 1 puts x(t-1) and x(t) side by side, node 3 consists of the rows of node 2 and needs no matrix:

>>> from tests.lowering.examples import splice
>>> print(find_reading(splice().schedule))
node 3: rows 0.. of node 2
node 1: 2 slots

The sum x(t) + h(t-1) has a step a row. The first slot takes rows 0 to 3 of node 0, the second nothing and then rows 0
to 2 of node 2:

>>> from tests.lowering.examples import loop
>>> for slot in gathered_nodes(loop().schedule)[1].slots:
...     print(slot.source_row, slot.count, slot.source, slot.regular)
[0 1 2 3] [1 1 1 1] [0 0 0 0] [ True  True  True  True]
[-1  0  1  2] [0 1 1 1] [-1  2  2  2] [ True  True  True  True]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from nnet3.engine.lowering.schedule import Schedule
from nnet3.engine.lowering.source import GatherPart, NodeKind

_NONE = np.iinfo(np.int64).max


@dataclass(frozen=True, eq=False)
class SlotPattern:
    """The rows that one slot of a gathered node takes.

    `source_node`, `source_row` (rows,): by rows of the node's matrix, -1 for none. `count` (steps,): how many rows of a
    step use the slot. Where `regular` (steps,), they are rows `first`, `first` + 1, ... and take rows `source_first`,
    `source_first` + 1, ... of `source`.
    """

    source_node: np.ndarray
    source_row: np.ndarray
    count: np.ndarray
    first: np.ndarray
    source: np.ndarray
    source_first: np.ndarray
    regular: np.ndarray

    @cached_property
    def used(self) -> np.ndarray:
        return self.source_row >= 0

    @cached_property
    def sources(self) -> list[int]:
        """The nodes of which the slot takes rows."""
        found = self.source[self.count > 0] if self.regular.all() else self.source_node[self.used]
        return sorted(set(found.tolist()))


@dataclass(frozen=True, eq=False)
class GatheredNode:
    """The slots of a gathered node by part, and its steps: `step_first`, `step_count` (steps,)."""

    number: int
    parts: tuple[tuple[GatherPart, int, list[SlotPattern]], ...]  # the part, its first column, its slots in use
    step_first: np.ndarray
    step_count: np.ndarray

    @property
    def slots(self) -> list[SlotPattern]:
        return [slot for _, _, slots in self.parts for slot in slots]


def gathered_nodes(schedule: Schedule) -> dict[int, GatheredNode]:
    """Returns all gathered nodes that have rows, by number."""
    graph = schedule.graph
    result: dict[int, GatheredNode] = {}
    node_of_item = np.append(graph.node, -1)
    row_of_item = np.append(schedule.row_of_item, -1)
    for number, node in enumerate(schedule.nodes):
        if node.kind is not NodeKind.GATHERED or schedule.num_rows(number) == 0:
            continue
        steps = [schedule.steps[position] for position in schedule.steps_of_node[number]]
        first = np.array([step.first for step in steps], np.int64)
        count = np.array([step.num_rows for step in steps], np.int64)
        items = schedule.slots_of_rows(number)
        parts, column = [], 0
        for part in node.parts:
            slots = []
            for slot in range(part.first_slot, part.first_slot + part.num_slots):
                used = items[:, slot]
                pattern = slot_pattern(node_of_item[used], row_of_item[used], first, count)
                if pattern is not None:
                    slots.append(pattern)
            parts.append((part, column, slots))
            column += part.num_cols
        result[number] = GatheredNode(number, tuple(parts), first, count)
    return result


def slot_pattern(nodes: np.ndarray, rows: np.ndarray, first: np.ndarray, count: np.ndarray) -> SlotPattern | None:
    """Returns a slot that takes rows (rows,) of `nodes` (-1: none); None if no row uses the slot.

    `first`, `count` (steps,): the rows of each step.
    """
    own = np.arange(len(rows))
    if len(first) == 1 and rows[0] >= 0:
        start = int(rows[0])
        if rows[-1] - start == len(rows) - 1 and (rows == own + start).all() and (nodes == nodes[0]).all():
            return SlotPattern(nodes, rows, count, first, nodes[:1], np.array([start]), np.ones(1, bool))
    used = rows >= 0
    if not used.any() or len(first) == 0:
        return None
    shift = rows - own
    used_count = np.add.reduceat(used, first, dtype=np.int64)
    lowest = np.minimum.reduceat(np.where(used, own, _NONE), first)
    highest = np.maximum.reduceat(np.where(used, own, -1), first)
    least_shift = np.minimum.reduceat(np.where(used, shift, _NONE), first)
    most_shift = np.maximum.reduceat(np.where(used, shift, -_NONE), first)
    least_node = np.minimum.reduceat(np.where(used, nodes, _NONE), first)
    most_node = np.maximum.reduceat(np.where(used, nodes, -1), first)
    regular = (highest - lowest + 1 == used_count) & (least_shift == most_shift) & (least_node == most_node)
    regular |= used_count == 0
    some = used_count > 0
    return SlotPattern(
        nodes,
        rows,
        used_count,
        np.where(some, lowest, 0),
        np.where(some, least_node, -1),
        np.where(some, lowest + least_shift, 0),
        regular,
    )


def identity_shift(gathered: GatheredNode) -> tuple[int, int] | None:
    """Returns the source and the shift of rows if a node is rows of one other, in order and unscaled; else None."""
    if len(gathered.parts) != 1:
        return None
    part, _, slots = gathered.parts[0]
    if len(slots) != 1 or part.constant != 0.0:
        return None
    slot = slots[0]
    source = int(slot.source[0])
    if part.scale_of_source.get(source, 1.0) != 1.0:
        return None
    if not (slot.regular & (slot.count == gathered.step_count) & (slot.source == source)).all():
        return None
    shifts = slot.source_first - slot.first
    if (shifts != shifts[0]).any():
        return None
    return source, int(shifts[0])


class RowsOf(NamedTuple):
    """Rows `first`, `first` + 1, ... of a node."""

    node: int
    first: int


@dataclass(frozen=True, eq=False)
class Reading:
    """The sources of the rows of gathered nodes.

    `gathered`: the slots of gathered nodes, by node. `in_order`: the gathered nodes made of rows of a single node, in
    order. `views`: the nodes of `in_order` with values in the matrix of the source.
    """

    gathered: Mapping[int, GatheredNode]
    in_order: Mapping[int, RowsOf]
    views: Mapping[int, RowsOf]

    def __str__(self) -> str:
        lines = [f"node {node}: rows {rows.first}.. of node {rows.node}" for node, rows in self.in_order.items()]
        copied = [node for node in self.gathered if node not in self.in_order]
        return "\n".join([*lines, *(f"node {node}: {len(self.gathered[node].slots)} slots" for node in copied)])


def find_reading(schedule: Schedule) -> Reading:
    """Returns the sources of the rows of a schedule's gathered nodes."""
    gathered = gathered_nodes(schedule)
    shifts = {node: identity_shift(each) for node, each in gathered.items()}
    in_order = {node: RowsOf(*shift) for node, shift in shifts.items() if shift is not None}
    views = {
        node: rows for node, rows in in_order.items() if schedule.multiplicity(node) == schedule.multiplicity(rows.node)
    }
    return Reading(gathered, in_order, views)
