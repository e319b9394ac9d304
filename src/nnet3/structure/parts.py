"""NetworkParts: the nodes and components of a network as one value."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from nnet3.components import Component
from nnet3.structure.descriptor import Descriptor
from nnet3.structure.nodes import ComponentNode, DescriptorNode, DimRangeNode, InputNode, NnetNode


@dataclass(frozen=True)
class NetworkParts:
    nodes: tuple[NnetNode, ...] = ()
    components: dict[str, Component] = field(default_factory=dict)  # by name, in order of definition

    @cached_property
    def node_number(self) -> dict[str, int]:
        return {node.name: number for number, node in enumerate(self.nodes)}

    def component(self, node: ComponentNode) -> Component:
        return self.components[node.component]

    def dim(self, name: str) -> int:
        """Number of columns of a node's value. Raises ConfigError where a descriptor's terms differ."""
        node = self.nodes[self.node_number[name]]
        if isinstance(node, ComponentNode):
            return self.component(node).output_dim
        if isinstance(node, DescriptorNode):
            return node.descriptor.dim(self.dim)
        assert isinstance(node, InputNode | DimRangeNode)
        return node.dim

    @cached_property
    def modulus(self) -> int:
        return math.lcm(1, *(node.modulus for node in self.nodes))

    def descriptor(self, number: int) -> Descriptor | None:
        """Returns the descriptor of a hidden input, of its component node or of an output; None for other nodes."""
        node = self.nodes[number]
        taking = self.nodes[number - 1] if isinstance(node, ComponentNode) else node
        return taking.descriptor if isinstance(taking, DescriptorNode) else None

    def visible_name(self, number: int) -> str:
        """The name of a node, or of the component node whose hidden input it is."""
        return self.nodes[number + self.nodes[number].is_hidden].name

    def sources(self, number: int) -> list[int]:
        """Numbers of the nodes that node `number` may need values of."""
        return self._sources[number]

    @cached_property
    def named(self) -> list[list[int]]:
        """The numbers of the nodes that each node names, including those that its component ignores."""
        return [sorted({self.node_number[name] for name in node.source_names()}) for node in self.nodes]

    @cached_property
    def _sources(self) -> list[list[int]]:
        blind = {name for name, component in self.components.items() if not has_input(component)}
        ignores = (isinstance(node, ComponentNode) and node.component in blind for node in self.nodes)
        return [[] if nothing else named for nothing, named in zip(ignores, self.named, strict=True)]


def has_input(component: Component) -> bool:
    """Returns True if the component looks at its input (a ConstantComponent does not)."""
    return component.wanted_inputs(np.zeros((1, 3), np.int32)).shape[1] > 0
