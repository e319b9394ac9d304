"""What the nodes of a network mean: which rows of which nodes each looks at, and when it is computable.

This is the one place that knows it. Every node has a fixed number of slots, each of which refers to one cindex for
every index.
"""

from __future__ import annotations

import numpy as np

from nnet3.components import Component
from nnet3.nnet.nodes import ComponentNode, DescriptorNode, DimRangeNode
from nnet3.nnet.parts import NetworkParts


class NodeRules:
    """The rules of the nodes of a network, by node number, for whole index tables."""

    def __init__(self, parts: NetworkParts):
        self.parts = parts

    def component(self, number: int) -> Component:
        """The component of a component node."""
        node = self.parts.nodes[number]
        assert isinstance(node, ComponentNode)
        return self.parts.component(node)

    def may_use(self, number: int) -> list[int]:
        """The nodes that this one may look at, ascending."""
        return self.parts.sources(number)

    def wanted(self, number: int, indexes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Node numbers (rows, slots) and indexes (rows, slots, 3) that indexes (rows, 3) of a node may need."""
        node = self.parts.nodes[number]
        if isinstance(node, DescriptorNode):
            return node.descriptor.get_dependencies(indexes, self.parts.node_number)
        if isinstance(node, ComponentNode):
            mapped = self.parts.component(node).wanted_inputs(indexes)
            return np.full(mapped.shape[:2], number - 1, np.int32), mapped
        if isinstance(node, DimRangeNode):
            source = self.parts.node_number[node.source]
            return np.full((len(indexes), 1), source, np.int32), indexes[:, np.newaxis, :]
        return np.empty((len(indexes), 0), np.int32), np.empty((len(indexes), 0, 3), np.int32)

    def computable(self, number: int, indexes: np.ndarray, available: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """From which slots are available (rows, slots): rows computable (rows,), slots they use (rows, slots)."""
        node = self.parts.nodes[number]
        if isinstance(node, DescriptorNode):
            return node.descriptor.is_computable(available)
        if isinstance(node, ComponentNode):
            return self.parts.component(node).computable(indexes, available)
        if isinstance(node, DimRangeNode):
            return available[:, 0], available
        return np.zeros(len(indexes), bool), available  # an input node's row that was not provided
