"""Types that look at windows of time: statistics and restricted attention."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from nnet3.export.emitter_table import Emission, emitter
from nnet3.export.gather import rows_by_number
from nnet3.export.graph import OnnxValue
from nnet3.export.program import Arrays

_FEW_GROUPS = 4
_SIZES, _ROWS, _STARTS = (f"inputs_of_output.{name}" for name in ("sizes", "rows", "starts"))


def _sums(about: Emission, x: OnnxValue) -> OnnxValue:
    """Returns for each output row the sum of its input rows."""
    graph = about.graph
    if all(len(arrays[_SIZES]) <= _FEW_GROUPS for arrays in about.members):
        return _sums_of_few(about, x)
    most = max(int(arrays[_SIZES].max()) for arrays in about.members)

    def members(arrays: Arrays) -> np.ndarray:
        """Returns the input rows of each output row, -1 where it has fewer than most."""
        position = np.arange(most)
        rows = arrays[_ROWS][np.minimum(arrays[_STARTS][:, np.newaxis] + position, len(arrays[_ROWS]) - 1)]
        return np.where(position < arrays[_SIZES][:, np.newaxis], rows, -1).ravel()

    chosen = rows_by_number(graph, graph.compact(x), about.table(members))
    if most == 1:
        return chosen
    groups = graph.op("Reshape", graph.whole(chosen), graph.integers(0, -1, most, x.columns))
    return graph.value(graph.op("ReduceSum", groups, graph.integers(2), keepdims=0), about.rows, x.columns)


def _sums_of_few(about: Emission, x: OnnxValue) -> OnnxValue:
    """Returns the sums of `_sums` for few output rows, with up to as many members as frames."""
    graph, sums = about.graph, []
    for group in range(len(about.members[0][_SIZES])):

        def members(arrays: Arrays, group: int = group) -> np.ndarray:
            start = int(arrays[_STARTS][group])
            return arrays[_ROWS][start : start + int(arrays[_SIZES][group])]

        rows = graph.whole(rows_by_number(graph, graph.compact(x), about.table(members)))
        sums.append(graph.value(graph.op("ReduceSum", rows, graph.integers(1), keepdims=1), 1, x.columns))
    return graph.below_each_other(sums)


@emitter("StatisticsExtractionComponent")
def statistics_extraction(about: Emission, component: Any, x: OnnxValue) -> OnnxValue:
    graph, x = about.graph, about.graph.compact(x)
    sums = [_sums(about, graph.filled(1.0, x.rows, 1)), _sums(about, x)]
    if component.include_variance:
        sums.append(_sums(about, graph.combine("Mul", x, x)))
    return graph.side_by_side(sums)


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
    """Emits a gather of contexts, (batch, rows * heads, context, head_dim), for each output row and head."""
    graph, sizes = about.graph, component.sizes
    context, key_dim, value_dim = sizes.context_dim, sizes.key_dim, sizes.value_dim

    def rows_of_context(arrays: Arrays) -> np.ndarray:
        """Returns the input rows, times heads, of all output rows and heads; -1 where an input is missing."""
        rows = arrays["row_of_position"].copy()
        rows[arrays["missing"]] = -1
        window, query = np.divmod(arrays["query_of_row"], arrays["num_queries"])
        position = window * arrays["num_positions"] + query * arrays["query_step"]
        return rows[position[:, np.newaxis] + np.arange(context)].ravel()

    by_head = graph.op("Reshape", graph.whole(x), graph.integers(0, -1, component.head_dim))
    by_head_rows = graph.value(by_head, x.rows * sizes.num_heads, component.head_dim)
    gathered = graph.whole(rows_by_number(graph, by_head_rows, about.table(rows_of_context)))
    windows = graph.op("Reshape", gathered, graph.integers(0, -1, context, component.head_dim))

    def part(first: int, columns: int, *, of_query: bool = False) -> ir.Value:
        """Returns `columns` columns from `first` on, of all rows of the context, or of the query's row."""
        rows = (sizes.num_left, sizes.num_left + 1) if of_query else (0, context)
        starts, ends = graph.integers(rows[0], first), graph.integers(rows[1], first + columns)
        return graph.op("Slice", windows, starts, ends, graph.integers(2, 3))

    query = part(key_dim + value_dim, key_dim, of_query=True)
    keys = graph.op("Transpose", part(0, key_dim), perm=[0, 1, 3, 2])
    scores = graph.op("Mul", graph.op("MatMul", query, keys), about.number(component.key_scale))
    bias = part(2 * key_dim + value_dim, context, of_query=True)
    posteriors = graph.op("Softmax", graph.op("Add", bias, scores), axis=-1)
    result = graph.op("MatMul", posteriors, part(key_dim, value_dim))
    if component.output_context:
        result = graph.op("Concat", result, posteriors, axis=3)
    joined = graph.op("Reshape", result, graph.integers(0, -1, component.output_dim))
    return graph.value(joined, about.rows, component.output_dim)
