"""A node as one line of text: `NAME = TYPE(operands, options)`."""

from __future__ import annotations

from collections.abc import Mapping

from nnet3.cn.node import Node
from nnet3.cn.operation import Operation

Names = Mapping[Node, str]


def node_line(node: Node, names: Names) -> str:
    """The line that describes the node whole, parameters apart."""
    changed = {"trainable": node.trainable} if node.is_parameter else {}
    return _line(node, names, {**node.operation.options(), **changed})


def structure_line(node: Node, names: Names, operation: Operation) -> str:
    """The same with what programs depend on alone, of the operation in the mode of the program."""
    return _line(node, names, operation.structure())


def _line(node: Node, names: Names, options: Mapping[str, object]) -> str:
    shown = [f"{name}={value!r}" for name, value in options.items()]
    return f"{names[node]} = {node.type}({', '.join([*(names[operand] for operand in node.operands), *shown])})"
