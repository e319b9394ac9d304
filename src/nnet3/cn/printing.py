"""How networks and orders are printed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nnet3.cn.graph import NodeGraph
from nnet3.cn.node import Node
from nnet3.cn.nodes.leaves import ParameterNode

if TYPE_CHECKING:
    from nnet3.cn.network import Network


class Order(tuple[object, ...]):
    """Names in their order, a loop being a tuple of names; prints one a line, with types and operands."""

    lines: Sequence[str] = ()

    def __str__(self) -> str:
        return "\n".join(self.lines)


def describe_order(groups: Sequence[Sequence[Node]], graph: NodeGraph) -> Order:
    """`groups`: nodes one by one, or all of a loop together."""
    loops = {node for composite in graph.composites if composite.is_loop for node in composite.nodes}
    order = Order(group[0].name if len(group) == 1 else tuple(node.name for node in group) for group in groups)
    lines = []
    for group in groups:
        is_loop = len(group) > 1 or (group[0] in loops and group[0] in group[0].operands)
        if is_loop:
            lines.append(f"loop over {len(group)} nodes, for each frame:")
        lines += [("  " if is_loop else "") + describe_node(node) for node in group]
    order.lines = lines
    return order


def describe_node(node: Node) -> str:
    """`{name : type}`, the names of its operands, and its shape."""
    operands = f" <- {', '.join(operand.name for operand in node.operands)}" if node.operands else ""
    return f"{{{node.name} : {node.type}}}{operands}    {node.shape}"


def describe_network(network: Network) -> str:
    """A line for each node, inputs and parameters first, then criteria and outputs."""
    leaves = [node for node in network.nodes if not node.operands]
    leaves.sort(key=lambda node: isinstance(node, ParameterNode))
    others = [node for node in network.nodes if node.operands]
    rows = []
    for node in [*leaves, *others]:
        options = ""
        if isinstance(node, ParameterNode) and not node.trainable:
            options = "frozen"
        operands = ", ".join(operand.name for operand in node.operands)
        rows.append((node.name, f": {node.type}", operands, str(node.shape), options))
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    for node, weight in network.criteria.items():
        lines.append(f"criterion {node.name}" + (f" x {weight:g}" if weight != 1 else ""))
    lines += [f"output {name}: {node.name}" for name, node in network.outputs.items()]
    return "\n".join(lines)
