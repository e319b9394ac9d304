"""Types that reduce, reorder or normalise groups of columns, and convolution within a row."""

from __future__ import annotations

import math
from functools import reduce
from typing import Any

import numpy as np
import onnx_ir as ir

from nnet3.export.emitter_table import Emission, emitter, row_emitter
from nnet3.export.graph import OnnxValue
from nnet3.export.nnet.emitters.kernels import emit

_LEAST_MEAN_SQUARE = 2.0**-66
_LEAST_IN_POOL = -1e20


@row_emitter("NormalizeComponent")
def normalize(about: Emission, component: Any, x: ir.Value) -> ir.Value:
    graph = about.graph
    blocks = about.blocks(x, component.input_dim // component.block_dim, component.block_dim)
    mean = graph.op("ReduceMean", graph.op("Mul", blocks, blocks), graph.integers(3), keepdims=1)
    target = component.target_rms**2
    p = graph.op("Max", graph.op("Mul", mean, about.number(1.0 / target)), about.number(_LEAST_MEAN_SQUARE))
    root = graph.op("Sqrt", p)
    y = graph.op("Div", blocks, root)
    if component.add_log_stddev:
        log = graph.op("Add", graph.op("Log", root), about.number(math.log(component.target_rms)))
        y = graph.op("Concat", y, log, axis=3)
    return about.joined(y)


@row_emitter("PermuteComponent")
def permute(about: Emission, component: Any, x: ir.Value) -> ir.Value:
    return about.op("Gather", x, about.graph.constant(component.column_map.cpu().numpy()), axis=2)


@row_emitter("SumGroupComponent")
def sum_group(about: Emission, component: Any, x: ir.Value) -> ir.Value:
    graph, sizes = about.graph, component.sizes
    if len(set(sizes.tolist())) == 1:
        return graph.op("ReduceSum", about.blocks(x, len(sizes), -1), graph.integers(3), keepdims=0)
    return graph.op("MatMul", x, about.weight("groups", lambda: np.repeat(np.eye(len(sizes)), sizes, axis=0)))


@row_emitter("PnormComponent")
def pnorm(about: Emission, component: Any, x: ir.Value) -> ir.Value:
    graph = about.graph
    return graph.op("ReduceL2", about.blocks(x, component.output_dim, -1), graph.integers(3), keepdims=0)


@row_emitter("SumBlockComponent")
def sum_block(about: Emission, component: Any, x: ir.Value) -> ir.Value:
    graph = about.graph
    y = graph.op("ReduceSum", about.blocks(x, -1, component.output_dim), graph.integers(2), keepdims=0)
    return y if component.scale == 1.0 else graph.op("Mul", y, about.number(component.scale))


@emitter("ElementwiseProductComponent")
def elementwise_product(about: Emission, component: Any, x: OnnxValue) -> OnnxValue:
    dim = component.output_dim
    blocks = [about.graph.columns_of(x, first, dim) for first in range(0, component.input_dim, dim)]
    return reduce(lambda one, other: about.graph.combine("Mul", one, other), blocks)


@row_emitter("MaxpoolingComponent")
def max_pooling(about: Emission, component: Any, x: ir.Value) -> ir.Value:
    graph = about.graph
    images = about.blocks(x, *component.input_dims)  # rows are the channels
    y = graph.op("MaxPool", images, kernel_shape=list(component.sizes), strides=list(component.steps))
    return graph.op("Max", about.joined(y), about.number(_LEAST_IN_POOL))


@row_emitter("ConvolutionComponent")
def convolution(about: Emission, component: Any, x: ir.Value) -> ir.Value:
    graph, layout = about.graph, component.layout
    if layout.is_zyx:
        shape, to_rows_zxy = (layout.input_x_dim, layout.input_y_dim, layout.input_z_dim), [0, 3, 1, 2]
    else:
        shape, to_rows_zxy = (layout.input_x_dim, layout.input_z_dim, layout.input_y_dim), [0, 2, 1, 3]
    images = graph.op("Reshape", x, graph.integers(-1, *shape))
    images = graph.op("Transpose", images, perm=to_rows_zxy)
    sizes = (layout.filt_x_dim, layout.filt_y_dim, layout.input_z_dim)
    weight = about.weight("filters", lambda: component.filter_params.unflatten(1, sizes).permute(0, 3, 1, 2))
    y = graph.op(
        "Conv", images, weight, about.weight("bias", lambda: component.bias_params),
        kernel_shape=list(sizes[:2]), strides=[layout.filt_x_step, layout.filt_y_step],
    )  # fmt: skip
    y = graph.op("Transpose", y, perm=[0, 2, 3, 1])
    rows = graph.op("Shape", x, start=0, end=2)
    return graph.op("Reshape", y, graph.op("Concat", rows, graph.integers(component.output_dim), axis=0))


@emitter("CompositeComponent")
def composite(about: Emission, component: Any, x: OnnxValue) -> OnnxValue:
    for number, part in enumerate(component.parts, start=1):
        x = emit(part, Emission(about.graph, f"{about.name}.component{number}", about.rows, part.output_dim), x)
    return x
