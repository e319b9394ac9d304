"""The table of emitters: for each type of node the ONNX nodes that compute its value in test mode.

Tensors are (batch, frames, rows), or (1, columns, rows) for values without samples: matrices lie transposed, as in the
executor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir

from nnet3.cn.node import Node
from nnet3.cn.nodes.component import ComponentOperation
from nnet3.cn.shape import Shape
from nnet3.errors import ExportError
from nnet3.export.emitters import Emission
from nnet3.export.graph import GraphBuilder

ALL_AXES = (0, 1, 2)


@dataclass(frozen=True)
class NodeEmission:
    """One use of a node: the destination of its ONNX nodes, the shapes of operands and result."""

    about: Emission
    operands: Sequence[Shape]
    shape: Shape

    @property
    def graph(self) -> GraphBuilder:
        return self.about.graph

    def op(self, op_type: str, *inputs: ir.Value, **attributes: Any) -> ir.Value:
        return self.graph.op(op_type, *inputs, **attributes)

    def number(self, value: float) -> ir.Value:
        return self.about.number(value)

    def total(self, x: ir.Value) -> ir.Value:
        """Returns the sum of all elements, those of all sequences included, (1, 1, 1)."""
        return self.op("ReduceSum", x, self.graph.integers(*ALL_AXES), keepdims=1)

    def matrix(self, x: ir.Value) -> ir.Value:
        """Returns a value without samples, (1, columns, rows), as a matrix (columns, rows)."""
        producer = x.producer()
        if producer is not None and producer.op_type == "Unsqueeze" and producer.inputs[0] is not None:
            return producer.inputs[0]  # a parameter: engines arrange constant factors once, when they load
        return self.op("Squeeze", x, self.graph.integers(0))


#: From tensors of the operands to one of the value.
NodeEmitter = Callable[..., ir.Value]

NODE_EMITTERS: dict[str, NodeEmitter] = {}


def emitter(*types: str) -> Callable[[NodeEmitter], NodeEmitter]:
    """Registers a function of a NodeEmission, an operation, and a tensor for each operand."""

    def register(function: NodeEmitter) -> NodeEmitter:
        NODE_EMITTERS.update(dict.fromkeys(types, function))
        return function

    return register


def emitted_value(about: Emission, node: Node, operands: Sequence[ir.Value]) -> ir.Value:
    """Returns the tensor of a node, made of the tensors of its operands."""
    made = NodeEmission(about, [operand.shape for operand in node.operands], node.shape)
    return NODE_EMITTERS[node.type](made, node.operation, *operands)


def check_can_be_exported(nodes: Iterable[Node], names: Mapping[Node, str]) -> None:
    """Raise ExportError, with the node's name, for a node without a form in ONNX."""
    for node in nodes:
        if isinstance(node.operation, ComponentOperation):
            reason = node.operation.component.inference_only
            if reason:
                raise ExportError(f"node '{names[node]}' cannot be exported: {reason}")
        elif node.is_evaluated and not node.lag and node.type not in NODE_EMITTERS:
            raise ExportError(
                f"node '{names[node]}' cannot be exported: nobody has said what {node.type} is in ONNX\n  {node.place}"
            )
