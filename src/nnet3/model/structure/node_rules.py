"""NodeRules: the rows of other nodes at which a node of a network looks, and when its rows are computable.

Lowering, contexts, recurrences and cycles take the rules from here alone. Every node has a fixed number of
slots; for every index a slot refers to one cindex.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np

from nnet3.base.index import IndexTable, N, T, X
from nnet3.engine.lowering.source import GatherPart, NodeKind, Operand, SourceNode, Use, common_period
from nnet3.model.components.base import Component
from nnet3.model.structure.forwarding import ALL_TIMES, ALWAYS, Interval, NotIntervalsError
from nnet3.model.structure.nodes import ComponentNode, DescriptorNode, DimRangeNode, InputNode
from nnet3.model.structure.parts import NetworkParts

_MOST_OFFSETS = 64


class NodeRules:
    """The nodes of a network as a GraphSource has them, without kernels: enough to make graphs.

    Nodes have the network's own numbers. A descriptor is a gathered node, a component node a kernel with its hidden
    input as the only operand, a dim-range a view.
    """

    def __init__(self, parts: NetworkParts):
        self.parts = parts
        self._offsets: dict[str, list[int]] = {}  # of each component that somebody has asked for

    @cached_property
    def nodes(self) -> Sequence[SourceNode]:
        return [self._source_node(number) for number in range(len(self.parts.nodes))]

    @cached_property
    def period(self) -> int | None:
        """See `GraphRules`."""
        return common_period(map(self.period_of, range(len(self.parts.nodes))))

    def period_of(self, node: int) -> int | None:
        """Returns the period, in frames, of the rules of a node; None if not known."""
        own = self.parts.nodes[node]
        if isinstance(own, DescriptorNode):
            return common_period(slot.period for slot in own.descriptor.slots())
        return self.parts.component(own).rules_period if isinstance(own, ComponentNode) else 1

    def component(self, number: int) -> Component:
        """Returns the component of a component node."""
        node = self.parts.nodes[number]
        assert isinstance(node, ComponentNode)
        return self.parts.component(node)

    def may_use(self, node: int) -> list[int]:
        """Returns the possible sources of a node, ascending."""
        return self.parts.sources(node)

    def slots(self, node: int, indexes: IndexTable) -> tuple[np.ndarray, IndexTable]:
        """Returns node numbers (rows, slots) and indexes (rows, slots, 3) that indexes (rows, 3) of a node may need."""
        own = self.parts.nodes[node]
        if isinstance(own, DescriptorNode):
            return own.descriptor.get_dependencies(indexes, self.parts.node_number)
        if isinstance(own, ComponentNode):
            mapped = self.parts.component(own).wanted_inputs(indexes)
            return np.full(mapped.shape[:2], node - 1, np.int32), mapped
        if isinstance(own, DimRangeNode):
            source = self.parts.node_number[own.source]
            return np.full((len(indexes), 1), source, np.int32), indexes[:, np.newaxis, :]
        return np.empty((len(indexes), 0), np.int32), np.empty((len(indexes), 0, 3), np.int32)

    def computable(self, node: int, indexes: IndexTable, available: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the computable rows (rows,) and the slots they use (rows, slots), from available slots."""
        own = self.parts.nodes[node]
        if isinstance(own, DescriptorNode):
            return own.descriptor.is_computable(available)
        assert isinstance(own, ComponentNode), "only descriptors and components have rules of their own"
        return self.parts.component(own).computable(indexes, available)

    def slot_sources(self, node: int) -> list[list[int]]:
        """Returns the possible sources of slots; a component's slots count as one slot."""
        own = self.parts.nodes[node]
        if not isinstance(own, DescriptorNode):
            return [[source] for source in self.may_use(node)]
        number = self.parts.node_number
        return [[number[reference.node] for reference in forward.nodes()] for forward in own.descriptor.slots()]

    def needs(self, node: int) -> list[int]:
        """Returns the nodes indispensable for the availability of a node; nodes inside IfDefined do not count."""
        own, number = self.parts.nodes[node], self.parts.node_number
        if not isinstance(own, DescriptorNode):
            return self.may_use(node)
        return [number[reference.node] for forward in own.descriptor.needed_slots() for reference in forward.nodes()]

    def availability(self, node: int, slots: np.ndarray) -> np.ndarray:
        """Returns the availability of rows (rows,) from that of slots (rows, slots); see `SumDescriptor`."""
        own = self.parts.nodes[node]
        if isinstance(own, DescriptorNode):
            return own.descriptor.availability(slots)
        return slots.min(axis=1, initial=slots.dtype.type(ALWAYS))

    def preimages(self, node: int, times_of: Callable[[str], Interval]) -> list[Interval]:
        """Returns for each slot the times that refer to available times; `times_of(node)` are the available times of a
        node.

        Slots whose availability does not matter have all times. Raises NotIntervalsError.
        """
        own = self.parts.nodes[node]
        if isinstance(own, DescriptorNode):
            slots = zip(own.descriptor.slots(), own.descriptor.needed, strict=True)
            return [forward.preimage(times_of) if needed else ALL_TIMES for forward, needed in slots]
        sources = [times_of(self.parts.nodes[source].name) for source in self.may_use(node)]
        if isinstance(own, ComponentNode) and sources:
            if own.component not in self._offsets:
                self._offsets[own.component] = _fixed_offsets(self.parts.component(own))
            return [sources[0].shifted(offset, 0) for offset in self._offsets[own.component]]
        return sources

    def _source_node(self, number: int) -> SourceNode:
        parts = self.parts
        node = parts.nodes[number]
        num_cols = parts.dim(node.name)
        if isinstance(node, InputNode):
            return SourceNode(node.name, NodeKind.PROVIDED, num_cols)
        if isinstance(node, DimRangeNode):
            operand = Operand(parts.node_number[node.source])
            return SourceNode(node.name, NodeKind.VIEW, num_cols, (operand,), col_offset=node.dim_offset)
        if isinstance(node, ComponentNode):
            use = Use.ROW if parts.component(node).identity_indexes else Use.INDEXED
            operands = tuple(Operand(source, use) for source in self.may_use(number))
            return SourceNode(node.name, NodeKind.KERNEL, num_cols, operands)
        assert isinstance(node, DescriptorNode)
        return SourceNode(node.name, NodeKind.GATHERED, num_cols, parts=self._gather_parts(node))

    def _gather_parts(self, node: DescriptorNode) -> tuple[GatherPart, ...]:
        network, descriptor = self.parts, node.descriptor
        return tuple(
            GatherPart(
                num_cols=dim,
                first_slot=slots.start,
                num_slots=slots.stop - slots.start,
                constant=part.constant,
                scale_of_source={
                    network.node_number[reference.node]: reference.scale
                    for forward in part.forwards()
                    for reference in forward.nodes()
                },
            )
            for part, slots, dim in zip(
                descriptor.parts, descriptor.part_slots, descriptor.part_dims(network.dim), strict=True
            )
        )


def _fixed_offsets(component: Component) -> list[int]:
    """Returns the offsets in t of a component's inputs. Raises NotIntervalsError unless all are always needed."""
    if component.identity_indexes:
        return [0]
    moves = component.moves()
    slots = moves.shape[1]
    if slots > _MOST_OFFSETS or moves[:, :, [N, X]].any() or (moves != moves[0]).any():
        raise NotIntervalsError
    missing = np.vstack([np.ones((1, slots), bool), ~np.eye(slots, dtype=bool)])
    outputs = np.zeros((len(missing), 3), np.int32)
    computable = component.computable(outputs, missing)[0]
    if not computable[0] or computable[1:].any():
        raise NotIntervalsError
    return [int(offset) for offset in moves[0, :, T]]
