"""Types whose outputs look at several times: TDNN and convolution over time and height; rows that are distributed."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from nnet3.errors import ExportError
from nnet3.export.emitter_table import Emission, as_array, emitter
from nnet3.export.extent import Extent, base_and_slope
from nnet3.export.gather import rows_by_number
from nnet3.export.graph import TO_END, OnnxValue
from nnet3.export.nnet.emitters.affine import product
from nnet3.export.program import Arrays
from nnet3.model.components.time_blocks import RowBlock

_FEW_OTHERS = 8  # rows of a product that are not wanted


def _blocks(about: Emission) -> list[RowBlock]:
    return [RowBlock(*block) for block in about.extents("blocks")]


def _without_padding(about: Emission, x: OnnxValue) -> OnnxValue:
    """Returns x with zeros in its padding rows."""
    if not any(len(arrays["input_padding"]) for arrays in about.members):
        return x
    num_rows = itertools.count(*base_and_slope(x.rows))  # of one member after the other

    def without_padding(arrays: Arrays) -> np.ndarray:
        rows = np.arange(next(num_rows))
        rows[arrays["input_padding"]] = -1
        return rows

    return rows_by_number(about.graph, about.graph.compact(x), about.table(without_padding))


def _num_rows(about: Emission, block: RowBlock) -> Extent:
    return about.rows + block.output_end - block.output_start


def _of_input(about: Emission, x: OnnxValue, block: RowBlock) -> OnnxValue:
    return about.graph.rows_of(x, block.input_start, _num_rows(about, block), block.input_step)


def _spread(about: Emission, y: OnnxValue, block: RowBlock) -> OnnxValue:
    """Returns the rows of a block at their positions among all output rows, with zeros elsewhere."""
    graph = about.graph
    parts = [graph.filled(0.0, rows, y.columns) for rows in (block.output_start, -block.output_end)]
    return graph.below_each_other([part for part in (parts[0], y, parts[1]) if part.rows != 0])


def _sum(about: Emission, values: Sequence[OnnxValue]) -> OnnxValue:
    total = values[0]
    for value in values[1:]:
        total = about.graph.combine("Add", total, value)
    return total


@emitter("TdnnComponent")
def tdnn(about: Emission, component: Any, x: OnnxValue) -> OnnxValue:
    """Emits one product of rows side by side or, faster for wide rows, the sum of a product per offset."""
    blocks = sorted(_blocks(about), key=lambda block: block.offset)
    x = _without_padding(about, x)
    bias = (lambda: component.bias_params) if component.has_bias else None
    is_whole = len(blocks) == len(component.time_offsets) and all(block.is_whole for block in blocks)
    if is_whole and component.output_dim >= component.input_dim:
        spliced = about.graph.side_by_side([_of_input(about, x, block) for block in blocks])
        return product(about, spliced, component.output_dim, "weight", lambda: component.linear_params.t(), bias)

    def product_of(block: RowBlock, rows: OnnxValue) -> OnnxValue:
        part = component.linear_params[:, block.offset * component.input_dim :][:, : component.input_dim]
        return product(about, rows, component.output_dim, f"weight{block.offset}", part.t)

    products = []
    for block in blocks:
        others = x.rows - _num_rows(about, block)
        if is_whole and block.input_step == 1 and isinstance(others, int) and others <= _FEW_OTHERS:
            y = _of_input(about, product_of(block, x), block)  # it has fewer columns to cut than x
        else:
            y = product_of(block, _of_input(about, x, block))
        products.append(_spread(about, y, block))
    total = _sum(about, products)
    if bias is None:
        return total
    return about.graph.combine("Add", total, about.row("bias", total.columns, bias))


@emitter("TimeHeightConvolutionComponent")
def time_height_convolution(about: Emission, component: Any, x: OnnxValue) -> OnnxValue:
    """Emits a Conv over rows and heights where offsets in time move rows alike, else one over heights per offset."""
    graph, model = about.graph, component.model
    x = graph.value(graph.whole(_without_padding(about, x)), x.rows, x.columns)
    blocks = sorted(_blocks(about), key=lambda block: block.offset)
    row_step = _row_step(about, x, blocks, len(model.time_offsets))
    if row_step is not None:
        first = blocks[0].input_start - blocks[0].output_start
        return _convolved(about, component, x, range(len(model.time_offsets)), first, row_step, bias=True)
    parts = []
    for block in blocks:
        y = _convolved(about, component, _of_input(about, x, block), [block.offset], 0, 1, bias=False)
        parts.append(_spread(about, y, block))
    bias = about.row("bias", component.output_dim, lambda: component.bias_params.repeat(model.height_out))
    return _sum(about, [*parts, bias])


def _row_step(about: Emission, x: OnnxValue, blocks: Sequence[RowBlock], num_offsets: int) -> int | None:
    """Returns the rows between neighbouring offsets in time; None for unequal distances."""
    shifts: list[int] = []
    for block in blocks:
        shift = block.input_start - block.output_start
        if block.input_step != 1 or not isinstance(shift, int):
            return None
        low: Extent = max(0, -shift)
        high = about.rows if about.rows <= x.rows - shift else x.rows - shift
        if block.output_start != low or about.rows + block.output_end != high:
            return None
        shifts.append(shift)
    steps = set(np.diff(shifts).tolist()) or {1}
    step = steps.pop()
    return step if len(blocks) == num_offsets and not steps and step > 0 else None


def _convolved(
    about: Emission, component: Any, x: OnnxValue, offsets: Sequence[int], first: Extent, step: int, *, bias: bool
) -> OnnxValue:
    """Returns the sum over some offsets in time; output row r reads rows r + first, r + first + step, ...."""
    graph, model = about.graph, component.model
    heights = [height for _, height in model.offsets]
    low, high = min(heights), max(heights)
    rows = about.rows if bias else x.rows
    pads = []  # before and after, of rows and heights
    for start, reach, count, size in (
        (first, step * (len(offsets) - 1), rows, x.rows),
        (low, high - low, (model.height_out - 1) * model.height_subsample_out + 1, model.height_in),
    ):
        before, after = -start, start + (count - 1) + reach - (size - 1)
        if not (isinstance(after, int) and isinstance(before, int)):
            raise ExportError("the rows that it reads depend on the length: export a fixed chunk")
        pads.append((before, after))
    image = about.blocks(x.parts[0], model.height_in, model.num_filters_in)
    image = graph.op("Transpose", image, perm=[0, 3, 1, 2])  # (batch, filters, rows, heights)
    for axis, (before, after) in enumerate(pads, start=2):
        if before < 0 or after < 0:
            image = graph.cut(image, axis, max(-before, 0), after if after < 0 else TO_END)
    name = "filters" if len(offsets) == len(model.time_offsets) else f"filters{offsets[0]}"
    kernel = about.weight(name, lambda: _kernel(component, offsets, low, high))
    y = graph.op(
        "Conv", image, kernel, *([about.weight("bias", lambda: component.bias_params)] if bias else []),
        kernel_shape=[len(offsets), high - low + 1], strides=[1, model.height_subsample_out], dilations=[step, 1],
        pads=[max(pads[axis][side], 0) for side in (0, 1) for axis in (0, 1)],
    )  # fmt: skip
    y = about.joined(graph.op("Transpose", y, perm=[0, 2, 3, 1]))
    return graph.value(y, rows, component.output_dim)


def _kernel(component: Any, offsets: Sequence[int], low: int, high: int) -> np.ndarray:
    """Returns the weights (filters out, filters in, offsets in time, heights), zero where the model has no offset."""
    model = component.model
    weights = as_array(component.linear_params).reshape(model.num_filters_out, len(model.offsets), model.num_filters_in)
    kernel = np.zeros((model.num_filters_out, model.num_filters_in, len(offsets), high - low + 1), np.float32)
    for number, (time, height) in enumerate(model.offsets):
        position = model.time_offsets.index(time)
        if position in offsets:
            kernel[:, :, list(offsets).index(position), height - low] = weights[:, number]
    return kernel


@emitter("DistributeComponent")
def distribute(about: Emission, component: Any, x: OnnxValue) -> OnnxValue:
    graph, blocks = about.graph, component.num_blocks
    split = graph.op("Reshape", graph.whole(x), graph.integers(0, -1, component.output_dim))
    value = graph.value(split, x.rows * blocks, component.output_dim)
    return rows_by_number(graph, value, about.table(lambda arrays: arrays["row"] * blocks + arrays["block"]))
