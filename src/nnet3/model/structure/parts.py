"""NetworkParts: the nodes and components of a network as one value; orphans, nodes needed by no output."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from nnet3.engine.schedule import reached
from nnet3.model.components.base import Component
from nnet3.model.structure.descriptor import Descriptor
from nnet3.model.structure.nodes import ComponentNode, DescriptorNode, DimRangeNode, InputNode, NnetNode


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
        """Returns the number of columns of a node's value. Raises ConfigError where a descriptor's terms differ."""
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
        """Returns the descriptor of a hidden input, a component node or an output; None for other nodes."""
        node = self.nodes[number]
        taking = self.nodes[number - 1] if isinstance(node, ComponentNode) else node
        return taking.descriptor if isinstance(taking, DescriptorNode) else None

    def visible_name(self, number: int) -> str:
        """Returns the name of a node; for a hidden input, the name of the component node."""
        return self.nodes[number + self.nodes[number].is_hidden].name

    def sources(self, number: int) -> list[int]:
        """Numbers of the nodes whose values node `number` may need."""
        return self._sources[number]

    @cached_property
    def named(self) -> list[list[int]]:
        """The numbers of the nodes named by a node, nodes ignored by the component included."""
        return [sorted({self.node_number[name] for name in node.source_names()}) for node in self.nodes]

    @cached_property
    def _sources(self) -> list[list[int]]:
        blind = {name for name, component in self.components.items() if not has_input(component)}
        ignores = (isinstance(node, ComponentNode) and node.component in blind for node in self.nodes)
        return [[] if nothing else named for nothing, named in zip(ignores, self.named, strict=True)]


def has_input(component: Component) -> bool:
    """Returns True if the component looks at its input (a ConstantComponent does not)."""
    return component.wanted_inputs(np.zeros((1, 3), np.int32)).shape[1] > 0


def orphan_nodes(parts: NetworkParts) -> list[int]:
    """Returns the numbers of the nodes not needed by any output.

    Sources of a needed node count as needed, even if its component ignores them (a dropout mask): without the sources
    the network could not be written.
    """
    outputs = (number for number, node in enumerate(parts.nodes) if node.is_output)
    needed = set(reached(outputs, parts.named.__getitem__))
    return [number for number in range(len(parts.nodes)) if number not in needed]


def orphan_components(parts: NetworkParts) -> list[str]:
    """Returns the names of the components used by no component node."""
    used = {node.component for node in parts.nodes if isinstance(node, ComponentNode)}
    return [name for name in parts.components if name not in used]


def orphan_warnings(parts: NetworkParts) -> list[str]:
    """Returns a line for each orphan, hidden inputs excepted."""
    nodes = [parts.nodes[number] for number in orphan_nodes(parts)]
    warnings = [f"node '{node.name}' is never used to compute any output" for node in nodes if not node.is_hidden]
    return warnings + [f"component '{name}' is never used by any node" for name in orphan_components(parts)]


def without_orphan_nodes(parts: NetworkParts, *, keep_inputs: bool = True) -> NetworkParts:
    """Keeps the nodes that some output needs, and all input nodes if `keep_inputs`."""
    orphans = set(orphan_nodes(parts))
    kept = [
        node
        for number, node in enumerate(parts.nodes)
        if number not in orphans or (keep_inputs and isinstance(node, InputNode))
    ]
    return replace(parts, nodes=tuple(kept))


def without_orphan_components(parts: NetworkParts) -> NetworkParts:
    """Keeps the components used by component nodes."""
    orphans = set(orphan_components(parts))
    return replace(parts, components={n: c for n, c in parts.components.items() if n not in orphans})


def without_orphans(parts: NetworkParts, *, keep_inputs: bool = True) -> NetworkParts:
    """Removes orphan nodes, then orphan components: those of removed nodes go too."""
    return without_orphan_components(without_orphan_nodes(parts, keep_inputs=keep_inputs))
