"""Time stamps (Section 1.2): a value is computed again only if one of its operands has a newer one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from torch import Tensor

from nnet3.cn.dependence import Snapshot, same_numbers
from nnet3.cn.graph import NodeGraph
from nnet3.cn.node import Node
from nnet3.cn.samples import SampleLayout


class Stamps:
    """Values of nodes, (rows, columns), each with the time at which it was given or computed.

    What is given is newer if it is other numbers or other samples; what a node keeps, if its contents have changed.
    """

    def __init__(self, graph: NodeGraph):
        self.graph = graph
        self._now = 0
        self._changed: dict[Node, int] = {}  # when an input was given, or a node's contents were seen to be others
        self._computed: dict[Node, int] = {}
        self._values: dict[Node, Tensor] = {}
        self._layouts: dict[Node, SampleLayout | None] = {}
        self._given: dict[Node, tuple[Tensor, SampleLayout | None]] = {}  # not compared yet
        self._snapshots: dict[Node, Snapshot] = {}

    def __contains__(self, node: Node) -> bool:
        return node in self._values or node in self._given

    def layout_of(self, node: Node) -> SampleLayout | None:
        """The layout of the value that was given last, which knows the order of its rows."""
        return self._given[node][1] if node in self._given else self._layouts.get(node)

    def give(self, node: Node, value: Tensor, layout: SampleLayout | None) -> None:
        """The value of an input, and which samples its rows are."""
        self._given[node] = value, layout

    def _compare(self) -> None:
        """Find out which of the values that were given are new; a gradient does not ask, so nothing is compared."""
        for node, (value, layout) in self._given.items():
            is_known = node in self._values and self._layouts[node] == layout
            if not (is_known and same_numbers(self._values[node], value)):
                self._now += 1
                self._changed[node] = self._now
                self._values[node], self._layouts[node] = value, layout
        self._given.clear()

    def look_at(self, nodes: Iterable[Node]) -> None:
        """Notice which of these nodes keep something else than at the last look."""
        self._compare()
        for node in nodes:
            if self._snapshots.setdefault(node, Snapshot()).renew(node):
                self._now += 1
                self._changed[node] = self._now

    def keep(self, values: Mapping[Node, Tensor]) -> None:
        """Computed values, that hold until something below them changes."""
        self._compare()
        self._now += 1
        for node, value in values.items():
            self._values[node], self._computed[node] = value, self._now

    def forget(self) -> None:
        """All values."""
        self._given.clear()
        self._values.clear()
        self._computed.clear()
        self._changed.clear()
        self._snapshots.clear()

    def value(self, node: Node) -> Tensor:
        return self._given[node][0] if node in self._given else self._values[node]

    def time_given(self, node: Node) -> int | None:
        """The time at which an input got the value that it has."""
        self._compare()
        return self._changed.get(node)

    def valid(self) -> set[Node]:
        """Computed nodes whose value is newer than all that it depends on."""
        self._compare()
        newest: dict[Node, int] = {}
        found: set[Node] = set()
        for composite in self.graph.composites:
            time = 0
            for node in composite.nodes:
                below: Iterable[Node] = () if node.is_stored else node.operands
                time = max([time, self._changed.get(node, 0), *(newest.get(operand, 0) for operand in below)])
            newest.update(dict.fromkeys(composite.nodes, time))
            found.update(node for node in composite.nodes if self._computed.get(node, 0) > time)
        return found
