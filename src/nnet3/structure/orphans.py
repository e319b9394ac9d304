"""Nodes and components that no output needs."""

from __future__ import annotations

from nnet3.structure.nodes import ComponentNode, DescriptorNode
from nnet3.structure.parts import NetworkParts


def orphan_nodes(parts: NetworkParts) -> list[int]:
    """Numbers of the nodes from which no output can be reached."""
    needed: set[int] = set()
    stack = [number for number, node in enumerate(parts.nodes) if node.is_output]
    while stack:
        number = stack.pop()
        if number in needed:
            continue
        needed.add(number)
        stack += parts.sources(number)
        if isinstance(parts.nodes[number], ComponentNode):
            stack.append(number - 1)  # its hidden input belongs to it, even one that the component ignores
    return [number for number in range(len(parts.nodes)) if number not in needed]


def orphan_components(parts: NetworkParts) -> list[str]:
    """Names of the components that no component node uses."""
    used = {node.component for node in parts.nodes if isinstance(node, ComponentNode)}
    return [name for name in parts.components if name not in used]


def orphan_warnings(parts: NetworkParts) -> list[str]:
    visible = [
        parts.nodes[number] for number in orphan_nodes(parts) if not isinstance(parts.nodes[number], DescriptorNode)
    ]
    warnings = [f"node '{node.name}' is never used to compute any output" for node in visible]
    return warnings + [f"component '{name}' is never used by any node" for name in orphan_components(parts)]
