"""Nodes, orders and networks as text; a node as a line is `NAME = TYPE(operands, options)`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nnet3.cn.node import Node
from nnet3.cn.operation import Operation
from nnet3.cn.order import Composite

Names = Mapping[Node, str]


def node_line(node: Node, names: Names) -> str:
    """Returns the line that describes the node whole, parameters apart."""
    changed = {"trainable": node.trainable} if node.is_parameter else {}
    return _line(node, names, {**node.operation.options(), **changed})


def structure_line(node: Node, names: Names, operation: Operation) -> str:
    """Returns the same with what programs depend on alone, of the operation in the mode of the program."""
    return _line(node, names, operation.structure())


def _line(node: Node, names: Names, options: Mapping[str, object]) -> str:
    shown = [f"{name}={value!r}" for name, value in options.items()]
    return f"{names[node]} = {node.type}({', '.join([*(names[operand] for operand in node.operands), *shown])})"


class Order(tuple[object, ...]):
    """Names in their order, a loop being a tuple of names; prints one a line, with types and operands."""

    lines: Sequence[str] = ()

    def __str__(self) -> str:
        return "\n".join(self.lines)


def describe_order(composites: Sequence[Composite], names: Mapping[Node, str]) -> Order:
    """Returns the order of nodes and loops, by their names in a network."""
    order = Order(
        tuple(names[node] for node in composite.nodes) if len(composite.nodes) > 1 else names[composite.nodes[0]]
        for composite in composites
    )
    lines = []
    for composite in composites:
        if composite.is_loop:
            lines.append(f"loop over {len(composite.nodes)} nodes, for each frame:")
        lines += [("  " if composite.is_loop else "") + describe_node(node, names) for node in composite.nodes]
    order.lines = lines
    return order


def describe_node(node: Node, names: Mapping[Node, str]) -> str:
    """Returns `{name : type}`, the names of the operands, and the shape."""
    operands = f" <- {', '.join(names[operand] for operand in node.operands)}" if node.operands else ""
    return f"{{{names[node]} : {node.type}}}{operands}    {node.shape}"
