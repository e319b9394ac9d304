"""A computational network as plain data for a page, in the form of `network_data`: each node is a layer."""

from __future__ import annotations

from typing import Any

from nnet3.cn import Network, Node
from nnet3.explore.histograms import histograms


def cn_data(network: Network) -> dict[str, Any]:
    """Returns `layers`, `nodes`, `arcs`, `components` (of nodes with numbers of their own) and `facts`."""
    names = network.names
    number = {node: place for place, node in enumerate(network.nodes)}
    components: list[dict[str, Any]] = []
    nodes = []
    for node in network.nodes:
        record = {"name": names[node], "layer": number[node], "dim": str(node.shape), "kind": node.type}
        record["takes"] = ", ".join(names[operand] for operand in node.operands)
        if node.is_stored:
            record["component"] = len(components)
            components.append(_parameter(names[node], node))
        nodes.append(record)
    arcs = [
        (number[operand], number[node], f"{-node.lag:+d} frames" if node.lag else "")
        for node in network.nodes
        for operand in node.operands
    ]
    return {
        "layers": [{"name": names[node], "kind": _kind(network, node)} for node in network.nodes],
        "nodes": nodes,
        "arcs": arcs,
        "components": components,
        "facts": {
            "kind": "computational network",
            "parameters": sum(component["parameters"] for component in components),
            "criteria": ", ".join(names[node] for node in network.criteria),
            "outputs": ", ".join(network.outputs),
        },
    }


def _parameter(name: str, node: Node) -> dict[str, Any]:
    memory = node.memory
    return {
        "name": name,
        "type": node.type,
        "in": int(memory.shape[0]),
        "out": int(memory.shape[-1]),
        "parameters": memory.numel(),
        "notes": [] if getattr(node, "trainable", False) else ["not trained"],
        "histograms": histograms({"value": memory}),
    }


def _kind(network: Network, node: Node) -> str:
    if node in network.criteria or node in network.outputs.values():
        return "output"
    if node.is_stored:
        return "trained" if getattr(node, "trainable", False) else "glue"
    if not node.operands:
        return "input"
    return "memory" if node.lag else "function"
