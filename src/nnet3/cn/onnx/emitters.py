"""The ONNX operators of each type of node, by the formulas of `nnet3.cn.nodes`.

Tensors are (batch, frames, rows), or (1, columns, rows) for values without samples: matrices lie transposed, as in the
executor.
"""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from nnet3.cn.nodes.functions import COMPARISONS, FUNCTIONS
from nnet3.export.emitter_table import Emission, TensorEmitter, emitter, tensor_emitter
from nnet3.export.graph import TO_END, OnnxValue
from nnet3.export.nnet.emitters import emit

_FLOAT, _INTEGER = ir.DataType.FLOAT.value, ir.DataType.INT64.value


@emitter("component")
def component(about: Emission, node: Any, x: OnnxValue) -> OnnxValue:
    return emit(node.operation.in_mode(training=False).component, about, x)


# ---- one formula ----


def _operator(op_type: str, **attributes: Any) -> TensorEmitter:
    """Returns the emitter of one ONNX operator on the operands, repeated to the columns of the value."""
    return lambda about, node, *operands: about.op(op_type, *_repeated(about, node, *operands), **attributes)


def _repeated(about: Emission, node: Any, *operands: ir.Value) -> list[ir.Value]:
    """Returns operands with the value's number of columns, or with one column, repeated by engines themselves."""
    found = []
    for x, operand in zip(operands, node.operands, strict=True):
        columns, own = node.shape.num_cols, operand.shape.num_cols
        if columns is not None and own not in (None, 1, columns):
            x = about.op("Tile", x, about.graph.integers(1, columns // own, 1))
        found.append(x)
    return found


def _matrix(about: Emission, x: ir.Value) -> ir.Value:
    """Returns a value without samples, (1, columns, rows), as a matrix (columns, rows)."""
    producer = x.producer()
    if producer is not None and producer.op_type == "Unsqueeze" and producer.inputs[0] is not None:
        return producer.inputs[0]  # a parameter: engines arrange constant factors once, when they load
    return about.op("Squeeze", x, about.graph.integers(0))


def _total(about: Emission, x: ir.Value) -> ir.Value:
    """Returns the sum of all elements, those of all sequences included, (1, 1, 1)."""
    return about.op("ReduceSum", x, about.graph.integers(0, 1, 2), keepdims=1)


def _squared(about: Emission, x: ir.Value) -> ir.Value:
    return _total(about, about.op("Mul", x, x))


def _cross_entropy(about: Emission, x: ir.Value, log_y: ir.Value) -> ir.Value:
    """Returns -sum x log y; x = 0 adds nothing for any y."""
    zero = about.number(0.0)
    terms = about.op("Where", about.op("Equal", x, zero), zero, about.op("Mul", x, log_y))
    return about.op("Neg", _total(about, terms))


_FORMULAS: dict[str, TensorEmitter] = {
    "negate": _operator("Neg"),
    "sigmoid": _operator("Sigmoid"),
    "tanh": _operator("Tanh"),
    "relu": _operator("Relu"),
    "log": _operator("Log"),
    "exp": _operator("Exp"),
    "plus": _operator("Add"),
    "minus": _operator("Sub"),
    "element_times": _operator("Mul"),
    "softmax": _operator("Softmax", axis=2),
    "log_softmax": _operator("LogSoftmax", axis=2),
    "sequence_softmax": _operator("Softmax", axis=1),
    "transpose": lambda about, node, x: about.op("Transpose", x, perm=[0, 2, 1]),
    "copy": lambda about, node, x: x,
    "dropout": lambda about, node, x: x,  # off in test mode
    "power": lambda about, node, x: about.op("Pow", x, about.number(node.operation.exponent)),
    "where": lambda about, node, condition, x, y: about.op(
        "Where", about.op("Equal", condition, about.number(0.0)), y, x
    ),
    "scale": lambda about, node, factor, y: about.op("Mul", y, factor),
    "diag_times": lambda about, node, factor, y: about.op("Mul", y, factor),
    "times": lambda about, node, x, y: about.op("MatMul", y, _matrix(about, x)),
    "sparse_times": lambda about, node, x, y: about.op("MatMul", y, _matrix(about, x)),
    "per_dim_mean_var_norm": lambda about, node, x, mean, inv: about.op("Mul", about.op("Sub", x, mean), inv),
    "sum_elements": lambda about, node, x: _total(about, x),
    "l1_norm": lambda about, node, x: _total(about, about.op("Abs", x)),
    "squared_norm": lambda about, node, x: _squared(about, x),
    "l2_norm": lambda about, node, x: about.op("Sqrt", _squared(about, x)),
    "square_error": lambda about, node, x, y: about.op(
        "Mul", _squared(about, about.op("Sub", x, y)), about.number(0.5)
    ),
    "cross_entropy": lambda about, node, x, y: _cross_entropy(about, x, about.op("Log", y)),
    "cross_entropy_with_softmax": lambda about, node, x, y: _cross_entropy(about, x, about.op("LogSoftmax", y, axis=2)),
    "row_step": lambda about, node, x: about.op("Gather", x, about.graph.integers(*node.operation.rows_read), axis=2),
    "max_pooling": lambda about, node, images: _of_windows(about, node, "MaxPool", images),
    "average_pooling": lambda about, node, images: _of_windows(about, node, "AveragePool", images, count_include_pad=1),
}
for _type in ("abs", "sqrt", "divide", "minimum", "maximum"):
    _FORMULAS[_type] = _operator(FUNCTIONS[_type].onnx)  # type: ignore[attr-defined]
for _type, _formula in _FORMULAS.items():
    tensor_emitter(_type)(_formula)


# ---- elements and rows ----


@tensor_emitter(*COMPARISONS)
def comparison(about: Emission, node: Any, *operands: ir.Value) -> ir.Value:
    return about.op("Cast", about.op(node.operation.onnx, *_repeated(about, node, *operands)), to=_FLOAT)


@tensor_emitter("clip")
def clip(about: Emission, node: Any, x: ir.Value) -> ir.Value:
    return about.op("Min", about.op("Max", x, about.number(node.operation.low)), about.number(node.operation.high))


@tensor_emitter("reduce_rows")
def reduce_rows(about: Emission, node: Any, x: ir.Value) -> ir.Value:
    named = {"sum": "ReduceSum", "mean": "ReduceMean", "max": "ReduceMax", "min": "ReduceMin"}
    return about.op(named.get(node.operation.how, "ReduceLogSumExp"), x, about.graph.integers(2), keepdims=1)


@tensor_emitter("layer_norm")
def layer_norm(about: Emission, node: Any, x: ir.Value) -> ir.Value:
    last = about.graph.integers(2)
    centred = about.op("Sub", x, about.op("ReduceMean", x, last, keepdims=1))
    variance = about.op("ReduceMean", about.op("Mul", centred, centred), last, keepdims=1)
    return about.op("Div", centred, about.op("Sqrt", about.op("Add", variance, about.number(node.operation.epsilon))))


@tensor_emitter("khatri_rao_product")
def khatri_rao_product(about: Emission, node: Any, x: ir.Value, y: ir.Value) -> ir.Value:
    blocks = about.op("Mul", about.blocks(x, -1, 1), about.blocks(y, 1, -1))
    return about.blocks(blocks, about.columns)


@tensor_emitter("cos")
def cos(about: Emission, node: Any, x: ir.Value, y: ir.Value) -> ir.Value:
    last = about.graph.integers(2)
    found = about.op("ReduceSum", about.op("Mul", x, y), last, keepdims=1)
    zero, one = about.number(0.0), about.number(1.0)
    for operand in (x, y):  # that of a row of zeros is 0
        norm = about.op("ReduceL2", operand, last, keepdims=1)
        inverse = about.op("Div", one, norm)
        found = about.op("Mul", found, about.op("Where", about.op("Equal", norm, zero), zero, inverse))
    return found


@tensor_emitter("row_slice")
def row_slice(about: Emission, node: Any, x: ir.Value) -> ir.Value:
    """Slices a value without samples; one with samples is a view."""
    return about.graph.cut(x, 2, node.operation.first, node.operation.first + node.operation.rows)


@tensor_emitter("row_stack")
def row_stack(about: Emission, node: Any, *operands: ir.Value) -> ir.Value:
    """Joins values, some or all without samples; all other stacks are gathered."""
    graph = about.graph
    values = [
        graph.value(x, about.rows, each.shape.rows, repeats=node.shape.has_samples and not each.shape.has_samples)
        for x, each in zip(operands, node.operands, strict=True)
    ]
    return graph.whole(graph.side_by_side(values))


# ---- one number of all elements ----


@tensor_emitter("classification_error")
def classification_error(about: Emission, node: Any, x: ir.Value, y: ir.Value) -> ir.Value:
    found = about.op("ArgMax", y, axis=2, keepdims=1)
    if node.operands[0].shape.rows == node.operands[1].shape.rows:
        wrong = about.op("Not", about.op("Equal", about.op("ArgMax", x, axis=2, keepdims=1), found))
    else:
        wanted = about.op("Cast", x, to=_INTEGER)
        is_wanted = about.op("GreaterOrEqual", wanted, about.graph.integers(0))
        wrong = about.op("And", is_wanted, about.op("Not", about.op("Equal", wanted, found)))
    return _total(about, about.op("Cast", wrong, to=_FLOAT))


@tensor_emitter("class_cross_entropy")
def class_cross_entropy(
    about: Emission, node: Any, labels: ir.Value, y: ir.Value, weights: ir.Value | None = None
) -> ir.Value:
    graph, classes = about.graph, node.operands[1].shape.rows
    labels = about.op("Cast", labels, to=_INTEGER)
    numbers = about.op("Reshape", graph.integers(*range(classes)), graph.integers(1, 1, classes))
    wanted = about.op("Cast", about.op("Equal", labels, numbers), to=_FLOAT)
    if node.operation.smoothing:
        is_wanted = about.op("GreaterOrEqual", labels, graph.integers(0))
        spread = about.op(
            "Mul", about.op("Cast", is_wanted, to=_FLOAT), about.number(node.operation.smoothing / classes)
        )
        wanted = about.op("Add", about.op("Mul", wanted, about.number(1 - node.operation.smoothing)), spread)
    if weights is not None:
        wanted = about.op("Mul", wanted, weights)
    return _cross_entropy(about, wanted, about.op("LogSoftmax", y, axis=2))


# ---- images ----


@tensor_emitter("convolution", "transposed_convolution")
def convolution(
    about: Emission, node: Any, kernels: ir.Value, images: ir.Value, bias: ir.Value | None = None
) -> ir.Value:
    graph = about.graph
    by_channel = about.op("Transpose", _matrix(about, kernels), perm=[1, 0])
    shape = graph.integers(node.operands[0].shape.rows, *node.operation.window, -1)
    weight = about.op("Transpose", about.op("Reshape", by_channel, shape), perm=[0, 3, 1, 2])
    biases = [] if bias is None else [about.op("Reshape", bias, graph.integers(-1))]
    transposed = node.operation.type == "transposed_convolution"
    op_type, more = ("ConvTranspose", {"output_padding": list(node.operation.extra)}) if transposed else ("Conv", {})
    dilations = list(node.operation.dilation)
    return _of_windows(about, node, op_type, images, weight, *biases, dilations=dilations, **more)


def _of_windows(
    about: Emission, node: Any, op_type: str, images: ir.Value, *others: ir.Value, **attributes: Any
) -> ir.Value:
    """Returns what an operator makes of images (batch * frames, channels, rows, columns), as columns again."""
    graph, margins = about.graph, node.operation.margins
    pixels = about.op("Reshape", images, graph.integers(-1, *node.operation.image))
    pixels = about.op("Transpose", pixels, perm=[0, 3, 1, 2])
    found = about.op(
        op_type, pixels, *others, kernel_shape=list(node.operation.window), strides=list(node.operation.stride),
        pads=[*margins, *margins], **attributes,
    )  # fmt: skip
    found = about.op("Transpose", found, perm=[0, 2, 3, 1])
    rows = about.op("Shape", images, start=0, end=2)
    return about.op("Reshape", found, about.op("Concat", rows, graph.integers(about.columns), axis=0))


# ---- whole sequences ----


@tensor_emitter("embedding")
def embedding(about: Emission, node: Any, table: ir.Value, classes: ir.Value) -> ir.Value:
    numbers = about.op("Cast", classes, to=_INTEGER)  # (batch, frames, 1)
    zero = about.graph.integers(0)
    rows = about.op("Squeeze", about.op("Max", numbers, zero), about.graph.integers(2))
    found = about.op("Gather", _matrix(about, table), rows, axis=0)
    return about.op("Where", about.op("Less", numbers, zero), about.number(0.0), found)


@tensor_emitter("reduce_sequence")
def reduce_sequence(about: Emission, node: Any, x: ir.Value) -> ir.Value:
    if node.operation.how == "first":
        return about.graph.cut(x, 1, 0, 1)
    if node.operation.how == "last":
        return about.graph.cut(x, 1, -1)
    named = {"sum": "ReduceSum", "mean": "ReduceMean", "max": "ReduceMax"}
    return about.op(named[node.operation.how], x, about.graph.integers(1), keepdims=1)


@tensor_emitter("reverse_sequence")
def reverse_sequence(about: Emission, node: Any, x: ir.Value) -> ir.Value:
    integers = about.graph.integers
    return about.op("Slice", x, integers(-1), integers(-TO_END), integers(1), integers(-1))


@tensor_emitter("broadcast_as")
def broadcast_as(about: Emission, node: Any, x: ir.Value, like: ir.Value) -> ir.Value:
    samples = about.op("Shape", like, start=0, end=2)
    return about.op("Expand", x, about.op("Concat", samples, about.graph.integers(about.columns), axis=0))


@tensor_emitter("gather_frames")
def gather_frames(about: Emission, node: Any, x: ir.Value, frames: ir.Value) -> ir.Value:
    numbers = about.op("Cast", about.op("Round", frames), to=_INTEGER)  # (batch, frames, 1)
    zero = about.graph.integers(0)
    last = about.op("Sub", about.op("Shape", x, start=1, end=2), about.graph.integers(1))
    rows = about.op("Min", about.op("Max", numbers, zero), last)
    shape = about.op("Concat", about.op("Shape", numbers, start=0, end=2), about.graph.integers(about.columns), axis=0)
    found = about.op("GatherElements", x, about.op("Expand", rows, shape), axis=1)
    return about.op("Where", about.op("Equal", rows, numbers), found, about.number(0.0))


@tensor_emitter("attention")
def attention(about: Emission, node: Any, query: ir.Value, keys: ir.Value, values: ir.Value) -> ir.Value:
    scale = node.operands[0].shape.rows ** -0.5 if node.operation.scale is None else node.operation.scale
    scores = about.op("MatMul", query, about.op("Transpose", keys, perm=[0, 2, 1]))
    return about.op("MatMul", about.op("Softmax", about.op("Mul", scores, about.number(scale)), axis=2), values)


@tensor_emitter("additive_attention")
def additive_attention(
    about: Emission, node: Any, query: ir.Value, keys: ir.Value, values: ir.Value, weights: ir.Value
) -> ir.Value:
    integers = about.graph.integers
    both = about.op("Add", about.op("Unsqueeze", query, integers(2)), about.op("Unsqueeze", keys, integers(1)))
    column = about.op("Transpose", _matrix(about, weights), perm=[1, 0])
    scores = about.op("Squeeze", about.op("MatMul", about.op("Tanh", both), column), integers(3))
    return about.op("MatMul", about.op("Softmax", scores, axis=2), values)


@tensor_emitter("lstm_layer")
def lstm_layer(
    about: Emission, node: Any, x: ir.Value, weights: ir.Value, recurrent: ir.Value, bias: ir.Value
) -> ir.Value:
    cells, integers = about.columns, about.graph.integers
    order = integers(*(gate * cells + row for gate in (0, 3, 1, 2) for row in range(cells)))  # i, o, f, g

    def rows_of_gates(matrix: ir.Value) -> ir.Value:
        turned = about.op("Transpose", _matrix(about, matrix), perm=[1, 0])
        return about.op("Unsqueeze", about.op("Gather", turned, order, axis=0), integers(0))

    own = about.op("Squeeze", rows_of_gates(bias), integers(2))  # (1, 4 cells)
    both = about.op("Concat", own, about.op("Sub", own, own), axis=1)
    frames = about.op("Transpose", x, perm=[1, 0, 2])
    direction = "reverse" if node.operation.reverse else "forward"
    inputs = frames, rows_of_gates(weights), rows_of_gates(recurrent), both
    y = about.op("LSTM", *inputs, hidden_size=cells, direction=direction)  # (frames, 1, batch, cells)
    return about.op("Transpose", about.op("Squeeze", y, integers(1)), perm=[1, 0, 2])
