"""A node as one line of text: `NAME = TYPE(operands, options)`."""

from __future__ import annotations

from nnet3.cn.node import Node


def node_line(node: Node) -> str:
    """The line that describes the node whole, parameters apart."""
    return _line(node, {**node.operation.options(), **_changed(node)})


def structure_line(node: Node) -> str:
    """The same with what programs depend on alone."""
    return _line(node, node.operation.structure())


def _line(node: Node, options: dict[str, object]) -> str:
    shown = [f"{name}={value!r}" for name, value in options.items()]
    return f"{node.name} = {node.type}({', '.join([*(operand.name for operand in node.operands), *shown])})"


def _changed(node: Node) -> dict[str, object]:
    """What has changed since the node was made: whether a parameter is trainable."""
    trainable = getattr(node, "trainable", None)
    return {} if trainable is None else {"trainable": trainable}
