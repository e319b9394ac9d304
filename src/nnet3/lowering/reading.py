"""First stage of the layout: where gathered nodes take their rows from, and which of them need no matrix.

Node 1 puts x(t-1) and x(t) side by side, node 3 is the rows of node 2, so that it needs no matrix:

>>> from tests.lowering.examples import splice
>>> print(find_reading(splice().schedule))
node 3: rows 0.. of node 2
node 1: 2 slots
"""

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
    """The sources of the rows of gathered nodes.

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
    """Returns the sources of the rows of a schedule's gathered nodes."""
    gathered = gathered_nodes(schedule)
    shifts = {node: identity_shift(each) for node, each in gathered.items()}
    in_order = {node: RowsOf(*shift) for node, shift in shifts.items() if shift is not None}
    views = {
        node: rows for node, rows in in_order.items() if schedule.multiplicity(node) == schedule.multiplicity(rows.node)
    }
    return Reading(gathered, in_order, views)
