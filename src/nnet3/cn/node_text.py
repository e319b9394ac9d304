"""A node as one line of text: `NAME = TYPE(operands, options)`."""

from __future__ import annotations

from dataclasses import fields

from nnet3.cn.node import Node
from nnet3.cn.operation import Operation


def node_line(node: Node) -> str:
    operands = [operand.name for operand in node.operands]
    return f"{node.name} = {node.type}({', '.join([*operands, *_options(node)])})"


def _options(node: Node) -> list[str]:
    operation = current_operation(node)
    shown = []
    for field in fields(operation):  # type: ignore[arg-type]
        value = getattr(operation, field.name)
        if value is not None:
            shown.append(f"{field.name}={value!r}")
    return shown


def current_operation(node: Node) -> Operation:
    """The operation with what has changed since the node was made: whether a parameter is trainable."""
    trainable = getattr(node, "trainable", None)
    if trainable is None:
        return node.operation
    return type(node.operation)(**{**vars(node.operation), "trainable": trainable})
