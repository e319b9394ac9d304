"""The ONNX operators of nodes of whole sequences: all sequences of a file's run have as many frames."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from nnet3.cn.onnx.registry import NodeEmission, emitter

_TO_END = 2**63 - 1
_REDUCTIONS = {"sum": "ReduceSum", "mean": "ReduceMean", "max": "ReduceMax"}


@emitter("embedding")
def embedding(made: NodeEmission, operation: Any, table: ir.Value, classes: ir.Value) -> ir.Value:
    numbers = made.op("Cast", classes, to=ir.DataType.INT64.value)  # (batch, frames, 1)
    zero = made.graph.integers(0)
    places = made.op("Squeeze", made.op("Max", numbers, zero), made.graph.integers(2))
    found = made.op("Gather", made.matrix(table), places, axis=0)
    return made.op("Where", made.op("Less", numbers, zero), made.number(0.0), found)


@emitter("reduce_sequence")
def reduce_sequence(made: NodeEmission, operation: Any, x: ir.Value) -> ir.Value:
    one = made.graph.integers(1)
    if operation.how == "first":
        return made.op("Slice", x, made.graph.integers(0), one, one)
    if operation.how == "last":
        return made.op("Slice", x, made.graph.integers(-1), made.graph.integers(_TO_END), one)
    return made.op(_REDUCTIONS[operation.how], x, one, keepdims=1)


@emitter("sequence_softmax")
def sequence_softmax(made: NodeEmission, operation: Any, x: ir.Value) -> ir.Value:
    return made.op("Softmax", x, axis=1)


@emitter("reverse_sequence")
def reverse_sequence(made: NodeEmission, operation: Any, x: ir.Value) -> ir.Value:
    integers = made.graph.integers
    return made.op("Slice", x, integers(-1), integers(-_TO_END), integers(1), integers(-1))


@emitter("broadcast_as")
def broadcast_as(made: NodeEmission, operation: Any, x: ir.Value, like: ir.Value) -> ir.Value:
    places = made.op("Shape", like, start=0, end=2)
    return made.op("Expand", x, made.op("Concat", places, made.graph.integers(made.shape.rows), axis=0))


@emitter("gather_frames")
def gather_frames(made: NodeEmission, operation: Any, x: ir.Value, frames: ir.Value) -> ir.Value:
    numbers = made.op("Cast", made.op("Round", frames), to=ir.DataType.INT64.value)  # (batch, frames, 1)
    zero = made.graph.integers(0)
    last = made.op("Sub", made.op("Shape", x, start=1, end=2), made.graph.integers(1))
    places = made.op("Min", made.op("Max", numbers, zero), last)
    shape = made.op("Concat", made.op("Shape", numbers, start=0, end=2), made.graph.integers(made.shape.rows), axis=0)
    found = made.op("GatherElements", x, made.op("Expand", places, shape), axis=1)
    return made.op("Where", made.op("Equal", places, numbers), found, made.number(0.0))


@emitter("attention")
def attention(made: NodeEmission, operation: Any, query: ir.Value, keys: ir.Value, values: ir.Value) -> ir.Value:
    scale = made.operands[0].rows ** -0.5 if operation.scale is None else operation.scale
    scores = made.op("MatMul", query, made.op("Transpose", keys, perm=[0, 2, 1]))
    return made.op("MatMul", made.op("Softmax", made.op("Mul", scores, made.number(scale)), axis=2), values)


@emitter("additive_attention")
def additive_attention(
    made: NodeEmission, operation: Any, query: ir.Value, keys: ir.Value, values: ir.Value, weights: ir.Value
) -> ir.Value:
    integers = made.graph.integers
    both = made.op("Add", made.op("Unsqueeze", query, integers(2)), made.op("Unsqueeze", keys, integers(1)))
    column = made.op("Transpose", made.matrix(weights), perm=[1, 0])
    scores = made.op("Squeeze", made.op("MatMul", made.op("Tanh", both), column), integers(3))
    return made.op("MatMul", made.op("Softmax", scores, axis=2), values)


@emitter("lstm_layer")
def lstm_layer(
    made: NodeEmission, operation: Any, x: ir.Value, weights: ir.Value, recurrent: ir.Value, bias: ir.Value
) -> ir.Value:
    cells, integers = made.shape.rows, made.graph.integers
    order = integers(*(gate * cells + row for gate in (0, 3, 1, 2) for row in range(cells)))  # i, o, f, g

    def rows_of_gates(matrix: ir.Value) -> ir.Value:
        turned = made.op("Transpose", made.matrix(matrix), perm=[1, 0])
        return made.op("Unsqueeze", made.op("Gather", turned, order, axis=0), integers(0))

    own = made.op("Squeeze", rows_of_gates(bias), integers(2))  # (1, 4 cells)
    both = made.op("Concat", own, made.op("Sub", own, own), axis=1)
    frames = made.op("Transpose", x, perm=[1, 0, 2])
    direction = "reverse" if operation.reverse else "forward"
    inputs = frames, rows_of_gates(weights), rows_of_gates(recurrent), both
    y = made.op("LSTM", *inputs, hidden_size=cells, direction=direction)  # (frames, 1, batch, cells)
    return made.op("Transpose", made.op("Squeeze", y, integers(1)), perm=[1, 0, 2])
