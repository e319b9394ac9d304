"""Changes of a network's nodes that several edits share, as functions from parts to parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from nnet3.structure.nodes import ComponentNode, DescriptorNode, DimRangeNode, InputNode, Node
from nnet3.structure.orphans import orphan_components, orphan_nodes
from nnet3.structure.parts import NetworkParts


def rename_references(node: Node, names: Mapping[str, str]) -> Node:
    """The node with the nodes it refers to renamed; its own name stays."""
    if isinstance(node, DescriptorNode):
        return replace(node, descriptor=node.descriptor.rename(names))
    if isinstance(node, DimRangeNode):
        return replace(node, source=names.get(node.source, node.source))
    return node


def without_orphan_nodes(parts: NetworkParts, *, keep_inputs: bool = True) -> NetworkParts:
    """Only the nodes that some output needs, and all input nodes if `keep_inputs`."""
    orphans = set(orphan_nodes(parts)) - _named_by_others(parts)
    kept = [
        node
        for number, node in enumerate(parts.nodes)
        if number not in orphans or (keep_inputs and isinstance(node, InputNode))
    ]
    return replace(parts, nodes=tuple(kept))


def _named_by_others(parts: NetworkParts) -> set[int]:
    """Nodes that a needed node names, even where its component (a dropout mask) never looks at its input.

    Without them the network could not be written.
    """
    orphans = set(orphan_nodes(parts))
    stack = [number for number in range(len(parts.nodes)) if number not in orphans]
    named: set[int] = set()
    while stack:
        number = stack.pop()
        if number in named:
            continue
        named.add(number)
        stack += [number - 1] if isinstance(parts.nodes[number], ComponentNode) else parts.sources(number)
    return named


def without_orphan_components(parts: NetworkParts) -> NetworkParts:
    """Only the components that some component node uses."""
    orphans = set(orphan_components(parts))
    return replace(parts, components={n: c for n, c in parts.components.items() if n not in orphans})


def without_orphans(parts: NetworkParts, *, keep_inputs: bool = True) -> NetworkParts:
    """Nodes first, so that the components of removed nodes go too."""
    return without_orphan_components(without_orphan_nodes(parts, keep_inputs=keep_inputs))
