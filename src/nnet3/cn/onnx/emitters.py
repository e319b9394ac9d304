"""The ONNX operators of each type of node, by the formulas of `nnet3.cn.nodes`."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from nnet3.cn.nodes.functions import COMPARISONS, FUNCTIONS
from nnet3.cn.onnx.registry import NodeEmission, emitter


def _register(type: str, op_type: str, **attributes: Any) -> None:
    """Register a node type written as one ONNX operator on its operands, repeated to the columns of the value."""
    emitter(type)(lambda made, operation, *operands: made.op(op_type, *_repeated(made, *operands), **attributes))


for _types in (
    *(("negate", "Neg"), ("sigmoid", "Sigmoid"), ("tanh", "Tanh"), ("relu", "Relu"), ("log", "Log"), ("exp", "Exp")),
    *(("plus", "Add"), ("minus", "Sub"), ("element_times", "Mul")),
):
    _register(*_types)
_register("softmax", "Softmax", axis=2)
_register("log_softmax", "LogSoftmax", axis=2)


for _type in ("abs", "sqrt", "divide", "minimum", "maximum"):
    _register(_type, FUNCTIONS[_type].onnx)  # type: ignore[attr-defined]


@emitter(*COMPARISONS)
def comparison(made: NodeEmission, operation: Any, *operands: ir.Value) -> ir.Value:
    return made.op("Cast", made.op(operation.onnx, *_repeated(made, *operands)), to=ir.DataType.FLOAT.value)


@emitter("power")
def power(made: NodeEmission, operation: Any, x: ir.Value) -> ir.Value:
    return made.op("Pow", x, made.number(operation.exponent))


@emitter("clip")
def clip(made: NodeEmission, operation: Any, x: ir.Value) -> ir.Value:
    return made.op("Min", made.op("Max", x, made.number(operation.low)), made.number(operation.high))


@emitter("where")
def where(made: NodeEmission, operation: Any, condition: ir.Value, x: ir.Value, y: ir.Value) -> ir.Value:
    return made.op("Where", made.op("Equal", condition, made.number(0.0)), y, x)


@emitter("reduce_rows")
def reduce_rows(made: NodeEmission, operation: Any, x: ir.Value) -> ir.Value:
    named = {"sum": "ReduceSum", "mean": "ReduceMean", "max": "ReduceMax", "min": "ReduceMin"}
    return made.op(named.get(operation.how, "ReduceLogSumExp"), x, made.graph.integers(2), keepdims=1)


@emitter("row_step")
def row_step(made: NodeEmission, operation: Any, x: ir.Value) -> ir.Value:
    return made.op("Gather", x, made.graph.integers(*operation.places), axis=2)


@emitter("transpose")
def transpose(made: NodeEmission, operation: Any, x: ir.Value) -> ir.Value:
    return made.op("Transpose", x, perm=[0, 2, 1])


@emitter("layer_norm")
def layer_norm(made: NodeEmission, operation: Any, x: ir.Value) -> ir.Value:
    last = made.graph.integers(2)
    centred = made.op("Sub", x, made.op("ReduceMean", x, last, keepdims=1))
    variance = made.op("ReduceMean", made.op("Mul", centred, centred), last, keepdims=1)
    return made.op("Div", centred, made.op("Sqrt", made.op("Add", variance, made.number(operation.epsilon))))


@emitter("copy", "dropout")
def identity(made: NodeEmission, operation: Any, x: ir.Value) -> ir.Value:
    """Dropout is off in test mode."""
    return x


# ---- one number of all elements ----


@emitter("sum_elements")
def sum_elements(made: NodeEmission, operation: Any, x: ir.Value) -> ir.Value:
    return made.total(x)


@emitter("l1_norm")
def l1_norm(made: NodeEmission, operation: Any, x: ir.Value) -> ir.Value:
    return made.total(made.op("Abs", x))


@emitter("squared_norm")
def squared_norm(made: NodeEmission, operation: Any, x: ir.Value) -> ir.Value:
    return made.total(made.op("Mul", x, x))


@emitter("l2_norm")
def l2_norm(made: NodeEmission, operation: Any, x: ir.Value) -> ir.Value:
    return made.op("Sqrt", squared_norm(made, operation, x))


@emitter("classification_error")
def classification_error(made: NodeEmission, operation: Any, x: ir.Value, y: ir.Value) -> ir.Value:
    found = made.op("ArgMax", y, axis=2, keepdims=1)
    if made.operands[0].rows == made.operands[1].rows:
        wrong = made.op("Not", made.op("Equal", made.op("ArgMax", x, axis=2, keepdims=1), found))
    else:
        wanted = made.op("Cast", x, to=ir.DataType.INT64.value)
        is_wanted = made.op("GreaterOrEqual", wanted, made.graph.integers(0))
        wrong = made.op("And", is_wanted, made.op("Not", made.op("Equal", wanted, found)))
    return made.total(made.op("Cast", wrong, to=ir.DataType.FLOAT.value))


@emitter("class_cross_entropy")
def class_cross_entropy(
    made: NodeEmission, operation: Any, labels: ir.Value, y: ir.Value, weights: ir.Value | None = None
) -> ir.Value:
    graph, classes = made.graph, made.operands[1].rows
    labels = made.op("Cast", labels, to=ir.DataType.INT64.value)
    numbers = made.op("Reshape", graph.integers(*range(classes)), graph.integers(1, 1, classes))
    wanted = made.op("Cast", made.op("Equal", labels, numbers), to=ir.DataType.FLOAT.value)
    if operation.smoothing:
        is_wanted = made.op("GreaterOrEqual", labels, graph.integers(0))
        spread = made.op("Cast", is_wanted, to=ir.DataType.FLOAT.value)
        spread = made.op("Mul", spread, made.number(operation.smoothing / classes))
        wanted = made.op("Add", made.op("Mul", wanted, made.number(1 - operation.smoothing)), spread)
    if weights is not None:
        wanted = made.op("Mul", wanted, weights)
    return _cross_entropy(made, wanted, made.op("LogSoftmax", y, axis=2))


@emitter("square_error")
def square_error(made: NodeEmission, operation: Any, x: ir.Value, y: ir.Value) -> ir.Value:
    return made.op("Mul", squared_norm(made, operation, made.op("Sub", x, y)), made.number(0.5))


@emitter("cross_entropy")
def cross_entropy(made: NodeEmission, operation: Any, x: ir.Value, y: ir.Value) -> ir.Value:
    return _cross_entropy(made, x, made.op("Log", y))


@emitter("cross_entropy_with_softmax")
def cross_entropy_with_softmax(made: NodeEmission, operation: Any, x: ir.Value, y: ir.Value) -> ir.Value:
    return _cross_entropy(made, x, made.op("LogSoftmax", y, axis=2))


def _cross_entropy(made: NodeEmission, x: ir.Value, log_y: ir.Value) -> ir.Value:
    """Returns -sum x log y; x = 0 adds nothing for any y."""
    zero = made.number(0.0)
    terms = made.op("Where", made.op("Equal", x, zero), zero, made.op("Mul", x, log_y))
    return made.op("Neg", made.total(terms))


# ---- sums and products ----


def _repeated(made: NodeEmission, *operands: ir.Value) -> list[ir.Value]:
    """Returns operands with the value's number of columns, or with one column, repeated by engines themselves."""
    found = []
    for x, shape in zip(operands, made.operands, strict=True):
        columns, own = made.shape.num_cols, shape.num_cols
        if columns is not None and own not in (None, 1, columns):
            x = made.op("Tile", x, made.graph.integers(1, columns // own, 1))
        found.append(x)
    return found


@emitter("scale", "diag_times")
def scale(made: NodeEmission, operation: Any, factor: ir.Value, y: ir.Value) -> ir.Value:
    return made.op("Mul", y, factor)


@emitter("times", "sparse_times")
def times(made: NodeEmission, operation: Any, x: ir.Value, y: ir.Value) -> ir.Value:
    return made.op("MatMul", y, made.matrix(x))


@emitter("khatri_rao_product")
def khatri_rao_product(made: NodeEmission, operation: Any, x: ir.Value, y: ir.Value) -> ir.Value:
    blocks = made.op("Mul", made.about.blocks(x, -1, 1), made.about.blocks(y, 1, -1))
    return made.about.blocks(blocks, made.shape.rows)


@emitter("cos")
def cos(made: NodeEmission, operation: Any, x: ir.Value, y: ir.Value) -> ir.Value:
    last = made.graph.integers(2)
    found = made.op("ReduceSum", made.op("Mul", x, y), last, keepdims=1)
    zero, one = made.number(0.0), made.number(1.0)
    for operand in (x, y):  # that of a row of zeros is 0
        norm = made.op("ReduceL2", operand, last, keepdims=1)
        inverse = made.op("Div", one, norm)
        found = made.op("Mul", found, made.op("Where", made.op("Equal", norm, zero), zero, inverse))
    return found


@emitter("per_dim_mean_var_norm")
def per_dim_mean_var_norm(made: NodeEmission, operation: Any, x: ir.Value, mean: ir.Value, inv: ir.Value) -> ir.Value:
    return made.op("Mul", made.op("Sub", x, mean), inv)


# ---- rows ----


@emitter("row_slice")
def row_slice(made: NodeEmission, operation: Any, x: ir.Value) -> ir.Value:
    """Slices a value without samples; one with samples is a view."""
    first, end = operation.first, operation.first + operation.rows
    return made.op("Slice", x, made.graph.integers(first), made.graph.integers(end), made.graph.integers(2))


@emitter("row_stack")
def row_stack(made: NodeEmission, operation: Any, *operands: ir.Value) -> ir.Value:
    """Joins values, some or all without samples; all other stacks are gathered."""
    graph = made.graph
    values = [
        graph.value(x, made.about.rows, shape.rows, repeats=made.shape.has_samples and not shape.has_samples)
        for x, shape in zip(operands, made.operands, strict=True)
    ]
    return graph.whole(graph.side_by_side(values))


# ---- images ----


@emitter("convolution", "transposed_convolution")
def convolution(
    made: NodeEmission, operation: Any, kernels: ir.Value, images: ir.Value, bias: ir.Value | None = None
) -> ir.Value:
    graph = made.graph
    by_channel = made.op("Transpose", made.matrix(kernels), perm=[1, 0])
    shape = graph.integers(made.operands[0].rows, *operation.window, -1)
    weight = made.op("Transpose", made.op("Reshape", by_channel, shape), perm=[0, 3, 1, 2])
    biases = [] if bias is None else [made.op("Reshape", bias, graph.integers(-1))]
    transposed = operation.type == "transposed_convolution"
    op_type, more = ("ConvTranspose", {"output_padding": list(operation.extra)}) if transposed else ("Conv", {})
    dilations = list(operation.dilation)
    return _of_windows(made, operation, op_type, images, weight, *biases, dilations=dilations, **more)


@emitter("max_pooling")
def max_pooling(made: NodeEmission, operation: Any, images: ir.Value) -> ir.Value:
    return _of_windows(made, operation, "MaxPool", images)


@emitter("average_pooling")
def average_pooling(made: NodeEmission, operation: Any, images: ir.Value) -> ir.Value:
    return _of_windows(made, operation, "AveragePool", images, count_include_pad=1)


def _of_windows(
    made: NodeEmission, operation: Any, op_type: str, images: ir.Value, *others: ir.Value, **attributes: Any
) -> ir.Value:
    """Returns what an operator makes of images (batch * frames, channels, rows, columns), as columns again."""
    graph, margins = made.graph, operation.margins
    pixels = made.op("Reshape", images, graph.integers(-1, *operation.image))
    pixels = made.op("Transpose", pixels, perm=[0, 3, 1, 2])
    found = made.op(
        op_type, pixels, *others, kernel_shape=list(operation.window), strides=list(operation.stride),
        pads=[*margins, *margins], **attributes,
    )  # fmt: skip
    found = made.op("Transpose", found, perm=[0, 2, 3, 1])
    rows = made.op("Shape", images, start=0, end=2)
    return made.op("Reshape", found, made.op("Concat", rows, graph.integers(made.shape.rows), axis=0))


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
