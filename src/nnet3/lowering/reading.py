"""First stage of the layout: where gathered nodes take their rows from, and which of them need no matrix."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from nnet3.lowering.patterns import GatheredNode, gathered_nodes, identity_shift
from nnet3.lowering.schedule import Schedule


class RowsOf(NamedTuple):
    """Rows `first`, `first` + 1, ... of a node."""

    node: int
    first: int


@dataclass(frozen=True, eq=False)
class Reading:
    """Where values come from.

    `gathered`: the slots of each gathered node. `in_order`: the gathered nodes that are rows of one other node, in
    order. `views`: those of them whose values lie in that node's matrix.
    """

    gathered: Mapping[int, GatheredNode]
    in_order: Mapping[int, RowsOf]
    views: Mapping[int, RowsOf]

    def __str__(self) -> str:
        lines = [f"node {node}: rows {rows.first}.. of node {rows.node}" for node, rows in self.in_order.items()]
        copied = [node for node in self.gathered if node not in self.in_order]
        return "\n".join([*lines, *(f"node {node}: {len(self.gathered[node].slots)} slots" for node in copied)])


def find_reading(schedule: Schedule) -> Reading:
    """The reading of a schedule.

    A node that takes rows 2 to 5 of node 0 is a view: `node 1: rows 2.. of node 0`. One that takes rows 2, 5, 3, 4 has
    rows of its own, to which they are copied.
    """
    gathered = gathered_nodes(schedule)
    shifts = {node: identity_shift(each) for node, each in gathered.items()}
    in_order = {node: RowsOf(*shift) for node, shift in shifts.items() if shift is not None}
    views = {
        node: rows for node, rows in in_order.items() if schedule.multiplicity(node) == schedule.multiplicity(rows.node)
    }
    return Reading(gathered, in_order, views)
