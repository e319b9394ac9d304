"""Time stamps (Section 1.2): which values still hold, so that only what has changed is computed again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from nnet3.cn.graph import NodeGraph
from nnet3.cn.node import Node, StoredNode
from nnet3.cn.nodes.component import ComponentOperation


class Stamps:
    """Values of nodes, (rows, columns), each with the time at which it was given or computed.

    A parameter is newer whenever its memory was written; an input when other numbers are given.
    """

    def __init__(self, graph: NodeGraph):
        self.graph = graph
        self._now = 0
        self._time_of_leaf: dict[Node, int] = {}
        self._state_of_leaf: dict[Node, Any] = {}
        self._values: dict[Node, tuple[int, Tensor]] = {}

    def give(self, node: Node, value: Tensor) -> None:
        """The value of an input."""
        known = self._values.get(node)
        if known is not None and known[1].shape == value.shape and torch.equal(known[1], value):
            return
        self._now += 1
        self._time_of_leaf[node] = self._now
        self._values[node] = self._now, value

    def look_at_parameters(self) -> None:
        """Notice which parameters and statistics have been written since the last look."""
        for node in self.graph.nodes:
            if isinstance(node, StoredNode):
                state: object = (id(node.memory), node.memory._version)
            elif isinstance(node.operation, ComponentOperation):
                state = [(id(tensor), tensor._version) for tensor in node.operation.parameters().values()]
            else:
                continue
            if self._state_of_leaf.get(node) != state:
                self._now += 1
                self._state_of_leaf[node] = state
                self._time_of_leaf[node] = self._now

    def keep(self, values: Mapping[Node, Tensor]) -> None:
        """Computed values, that hold until something below them changes."""
        self._now += 1
        for node, value in values.items():
            self._values[node] = self._now, value

    def forget(self) -> None:
        """All computed values and inputs."""
        self._values.clear()
        self._time_of_leaf.clear()
        self._state_of_leaf.clear()

    def value(self, node: Node) -> Tensor:
        return self._values[node][1]

    def valid(self) -> set[Node]:
        """Computed nodes whose value is newer than all that it depends on."""
        newest: dict[Node, int] = {}
        found = set()
        for composite in self.graph.composites:
            time = 0
            for node in composite.nodes:
                below: Iterable[Node] = () if isinstance(node, StoredNode) else node.operands
                time = max([time, self._time_of_leaf.get(node, 0), *(newest.get(operand, 0) for operand in below)])
            for node in composite.nodes:
                newest[node] = time
                known = self._values.get(node)
                if node.operands and known is not None and known[0] > time:
                    found.add(node)
        return found
