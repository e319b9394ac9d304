"""Finds and removes orphans: nodes and components that no output needs."""

from __future__ import annotations

from dataclasses import replace

from nnet3.schedule import reached
from nnet3.structure.nodes import ComponentNode, InputNode
from nnet3.structure.parts import NetworkParts


def orphan_nodes(parts: NetworkParts) -> list[int]:
    """Returns the numbers of the nodes that no output needs.

    What a needed node names counts as needed, even if its component ignores it (a dropout mask): without it the network
    could not be written.
    """
    outputs = (number for number, node in enumerate(parts.nodes) if node.is_output)
    needed = set(reached(outputs, parts.named.__getitem__))
    return [number for number in range(len(parts.nodes)) if number not in needed]


def orphan_components(parts: NetworkParts) -> list[str]:
    """Returns the names of the components that no component node uses."""
    used = {node.component for node in parts.nodes if isinstance(node, ComponentNode)}
    return [name for name in parts.components if name not in used]


def orphan_warnings(parts: NetworkParts) -> list[str]:
    """Returns one line for each orphan that is not a hidden input."""
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
    """Keeps the components that some component node uses."""
    orphans = set(orphan_components(parts))
    return replace(parts, components={n: c for n, c in parts.components.items() if n not in orphans})


def without_orphans(parts: NetworkParts, *, keep_inputs: bool = True) -> NetworkParts:
    """Removes orphan nodes, then orphan components: those of removed nodes go too."""
    return without_orphan_components(without_orphan_nodes(parts, keep_inputs=keep_inputs))
