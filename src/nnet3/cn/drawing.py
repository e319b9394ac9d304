"""Pictures of networks in the chapter's manner: a box {name : type} for each node, arcs from operands to users."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from nnet3.cn.node import Node
from nnet3.cn.order import parents_of
from nnet3.drawing import Arc, Box, Graph, Picture

if TYPE_CHECKING:
    from nnet3.cn.network import Network


def picture(network: Network, *, highlight: Collection[Node | str] = (), title: str = "") -> Picture:
    """The picture of a network. `highlight`: nodes that are marked, by themselves or by name.

    Arcs into delays are dashed and say how far they look; a parameter with several users says how many.
    """
    names = network.names
    marked = {network.find(node) for node in highlight}
    parents = parents_of(network.nodes)
    boxes, arcs = [], []
    for node in network.nodes:
        lines = [f"{{{names[node]} : {node.type}}}", str(node.shape)]
        users = len(parents[node])
        if node.is_parameter and users > 1:
            lines.append(f"shared by {users}")
        kind = "output" if node in marked else _kind(network, node)
        boxes.append(Box(names[node], tuple(lines), kind, tooltip=node.place.text))
        for operand in node.operands:
            label = f"{-node.lag:+d} frames" if node.lag else ""
            arcs.append(Arc(names[operand], names[node], label, bool(node.lag)))
    return Picture(Graph(boxes, arcs, title))


def _kind(network: Network, node: Node) -> str:
    """The kind of a box, which decides its colour."""
    if node.is_parameter:
        return "trained" if node.trainable else "glue"
    if node.lag or node.is_stored:
        return "memory"
    if not node.operands:
        return "input"
    if node in network.criteria:
        return "output"
    return "function"
