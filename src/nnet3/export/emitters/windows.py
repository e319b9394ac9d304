"""Types that look at windows of time: statistics and restricted attention."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from nnet3.errors import ExportError
from nnet3.export.emitters.registry import Emission, emitter
from nnet3.export.extent import Growing
from nnet3.export.gather import rows_by_number
from nnet3.export.graph import OnnxValue
from nnet3.export.program import row_patterns

_TO_END = 2**63 - 1


def _sums(about: Emission, x: OnnxValue) -> OnnxValue:
    """Returns for each output row the sum of the input rows that belong to it."""
    assert about.indexes is not None
    graph = about.graph
    rows, sizes = (about.indexes[f"inputs_of_output.{name}"] for name in ("rows", "sizes"))
    if isinstance(x.rows, Growing) or isinstance(about.rows, Growing):
        raise ExportError("the rows of its windows depend on the length: export a fixed chunk")
    if (sizes == 1).all():
        return rows_by_number(graph, graph.compact(x), row_patterns(rows))
    if x.is_repeated:
        counts = graph.value(graph.constant(sizes.astype(np.float32).reshape(1, -1, 1)), about.rows, 1)
        return graph.combine("Mul", graph.value(graph.whole(x), x.rows, x.columns), counts)
    members = np.zeros((len(sizes), x.rows), np.float32)
    np.add.at(members, (np.repeat(np.arange(len(sizes)), sizes), rows), 1.0)
    summed = graph.op("MatMul", graph.constant(members), graph.whole(x))
    return graph.value(summed, about.rows, x.columns)


@emitter("StatisticsExtractionComponent")
def statistics_extraction(about: Emission, component: Any, x: OnnxValue) -> OnnxValue:
    assert about.indexes is not None
    graph, x = about.graph, about.graph.compact(x)
    sizes = about.indexes["inputs_of_output.sizes"].astype(np.float32)
    ones = graph.filled(float(sizes[0]), about.rows, 1)
    counts = ones if (sizes == sizes[0]).all() else _column(about, sizes)
    sums = [counts, _sums(about, x)]
    if component.include_variance:
        sums.append(_sums(about, graph.combine("Mul", x, x)))
    return graph.side_by_side(sums)


def _column(about: Emission, numbers: np.ndarray) -> OnnxValue:
    """Returns a column of constants."""
    graph = about.graph
    zeros = graph.whole(graph.filled(0.0, about.rows, 1))
    return graph.value(graph.op("Add", zeros, graph.constant(numbers.reshape(1, -1, 1))), about.rows, 1)


@emitter("StatisticsPoolingComponent")
def statistics_pooling(about: Emission, component: Any, x: OnnxValue) -> OnnxValue:
    graph = about.graph
    sums = _sums(about, x)
    count = graph.compact(graph.columns_of(sums, 0, 1))
    rest = graph.compact(graph.columns_of(sums, 1, sums.columns - 1))
    means = graph.op("Div", rest.parts[0], count.parts[0])
    result = graph.value(means, about.rows, rest.columns, rest.is_repeated and count.is_repeated)
    if component.output_stddevs:
        half = rest.columns // 2
        mean, square = graph.columns_of(result, 0, half), graph.columns_of(result, half, half)
        variance = graph.combine("Sub", square, graph.combine("Mul", mean, mean)).parts[0]
        floored = graph.op("Max", variance, about.number(component.variance_floor))
        deviation = graph.value(graph.op("Sqrt", floored), about.rows, half, result.is_repeated)
        result = graph.side_by_side([mean, deviation])
    if component.num_log_count_features:
        log = graph.value(graph.op("Log", count.parts[0]), about.rows, 1, count.is_repeated)
        result = graph.side_by_side([*[log] * component.num_log_count_features, result])
    return result


@emitter("RestrictedAttentionComponent")
def restricted_attention(about: Emission, component: Any, x: OnnxValue) -> OnnxValue:
    """Each window of consecutive times is a batch of matrices; a query's context is a band of its row of scores."""
    assert about.indexes is not None
    graph, sizes, arrays = about.graph, component.sizes, about.indexes
    if isinstance(x.rows, Growing):
        raise ExportError("the rows of its windows depend on the length: export a fixed chunk")
    queries, step, positions = (int(arrays[name]) for name in ("num_queries", "query_step", "num_positions"))
    rows = arrays["row_of_position"].copy()
    rows[arrays["missing"]] = -1
    by_head = graph.op("Reshape", graph.whole(x), graph.integers(0, -1, component.head_dim))
    by_head_rows = graph.value(by_head, x.rows * sizes.num_heads, component.head_dim)
    gathered = graph.whole(rows_by_number(graph, by_head_rows, row_patterns(rows)))
    windows = graph.op("Reshape", gathered, graph.integers(0, -1, positions, component.head_dim))

    def part(first: int, columns: int, of_queries: bool) -> ir.Value:
        """Returns columns (batch, windows * heads, positions or queries, columns)."""
        start, end, by = (
            (sizes.num_left, sizes.num_left + (queries - 1) * step + 1, step) if of_queries else (0, _TO_END, 1)
        )
        starts, ends = graph.integers(start, first), graph.integers(end, first + columns)
        return graph.op("Slice", windows, starts, ends, graph.integers(2, 3), graph.integers(by, 1))

    key_dim, value_dim, context = sizes.key_dim, sizes.value_dim, sizes.context_dim
    keys, values = part(0, key_dim, False), part(key_dim, value_dim, False)
    query, bias = part(key_dim + value_dim, key_dim, True), part(2 * key_dim + value_dim, context, True)
    scores = graph.op("MatMul", query, graph.op("Transpose", keys, perm=[0, 1, 3, 2]))

    def reshaped(matrix: ir.Value, wide: int, narrow: int) -> ir.Value:
        """Returns rows of another width, which go on where the row before them ends; zeros come in addition."""
        size, wanted = queries * wide, queries * narrow
        flat = graph.op("Reshape", matrix, graph.integers(0, 0, size))
        if wanted > size:
            flat = graph.op("Pad", flat, graph.integers(0, 0, 0, 0, 0, wanted - size))
        elif wanted < size:
            flat = graph.op("Slice", flat, graph.integers(0), graph.integers(wanted), graph.integers(2))
        return graph.op("Reshape", flat, graph.integers(0, 0, queries, narrow))

    # Row m of the scores has its context from column m step on: in rows that are `step` longer it is from column 0 on.
    band = reshaped(scores, positions, positions + step)
    band = graph.op("Slice", band, graph.integers(0), graph.integers(context), graph.integers(3))
    scaled = graph.op("Add", bias, graph.op("Mul", band, about.number(component.key_scale)))
    posteriors = graph.op("Softmax", scaled, axis=-1)
    padded = graph.op("Pad", posteriors, graph.integers(0, 0, 0, 0, 0, 0, 0, positions + step - context))
    result = graph.op("MatMul", reshaped(padded, positions + step, positions), values)
    columns = value_dim
    if component.output_context:
        result, columns = graph.op("Concat", result, posteriors, axis=3), value_dim + context
    flat = graph.value(
        graph.op("Reshape", result, graph.integers(0, -1, columns)), len(rows) // positions * queries, columns
    )
    chosen = graph.whole(rows_by_number(graph, flat, row_patterns(arrays["query_of_row"])))
    joined = graph.op("Reshape", chosen, graph.integers(0, -1, component.output_dim))
    return graph.value(joined, about.rows, component.output_dim)
