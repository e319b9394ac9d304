"""One view of all nodes for the graph builder: what each wants, and when it is computable."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nnet3.nnet.nodes import ComponentNode, DescriptorNode, DimRangeNode, InputNode, Node
from nnet3.schedule import DirectedGraph

if TYPE_CHECKING:
    from nnet3.nnet import Nnet


class NodeRules:
    """Dependencies and computability of whole index tables, node by node number.

    Every node has a fixed number of slots, each of which refers to at most one cindex per index.
    """

    def __init__(self, nnet: Nnet):
        self.nnet = nnet
        self.names = [node.name for node in nnet.nodes]
        self.is_input_node = np.array([isinstance(node, InputNode) for node in nnet.nodes])
        #: Whether a node's rule looks at its slots alone (and needs some), not at the index.
        self.depends_on_slots_only = [self._looks_at_slots_only(node) for node in nnet.nodes]
        #: Whether a row is computable with none of its slots.
        self.needs_nothing = [self._needs_nothing(number) for number in range(len(nnet.nodes))]

    def _looks_at_slots_only(self, node: Node) -> bool:
        if isinstance(node, DescriptorNode):
            return bool(node.descriptor.slots())
        if isinstance(node, ComponentNode):
            component = self.nnet.component_of(node)
            return component.identity_indexes and self._num_slots(node) > 0
        return isinstance(node, DimRangeNode)

    def _num_slots(self, node: ComponentNode) -> int:
        return self.nnet.component_of(node).wanted_inputs(np.zeros((1, 3), np.int32)).shape[1]

    def _needs_nothing(self, number: int) -> bool:
        probe = np.zeros((1, 3), np.int32)
        none = np.zeros(self.wanted(number, probe)[0].shape, bool)
        return bool(self.computable(number, probe, none)[0][0])

    def wanted(self, number: int, indexes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Node numbers (rows, slots) and indexes (rows, slots, 3) that indexes (rows, 3) of a node may need."""
        node = self.nnet.nodes[number]
        if isinstance(node, DescriptorNode):
            return node.descriptor.get_dependencies(indexes, self.nnet.node_number)
        if isinstance(node, ComponentNode):
            mapped = self.nnet.component_of(node).wanted_inputs(indexes)
            return np.full(mapped.shape[:2], number - 1, np.int32), mapped
        if isinstance(node, DimRangeNode):
            source = self.nnet.node_number[node.source]
            return np.full((len(indexes), 1), source, np.int32), indexes[:, np.newaxis, :]
        return np.empty((len(indexes), 0), np.int32), np.empty((len(indexes), 0, 3), np.int32)

    def computable(self, number: int, indexes: np.ndarray, available: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """From which slots are available (rows, slots): rows computable (rows,), slots they use (rows, slots)."""
        node = self.nnet.nodes[number]
        if isinstance(node, DescriptorNode):
            return node.descriptor.is_computable(available)
        if isinstance(node, ComponentNode):
            return self.nnet.component_of(node).computable(indexes, available)
        if isinstance(node, DimRangeNode):
            return available[:, 0], available
        return np.zeros(len(indexes), bool), available  # an input node's row that was not provided

    def directed_graph(self) -> DirectedGraph:
        """Arcs from each node to the nodes that may need it."""
        probe = np.zeros((1, 3), np.int32)
        sources: list[int] = []
        users: list[int] = []
        for number, node in enumerate(self.nnet.nodes):
            if isinstance(node, DescriptorNode):
                needed = {self.nnet.node_number[ref.node] for ref in node.descriptor.node_references()}
            else:
                needed = set(self.wanted(number, probe)[0].ravel().tolist())
            sources += needed
            users += [number] * len(needed)
        return DirectedGraph.from_edges(len(self.nnet.nodes), np.array(sources, int), np.array(users, int))
