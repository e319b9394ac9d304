"""Rows named by tables, as slices where they follow a pattern, else by Gather."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import onnx_ir as ir

from nnet3.engine.families.polynomial import Polynomial
from nnet3.export.graph import GraphBuilder, OnnxValue
from nnet3.export.program import Block, TablePattern

_MOST_SLICES = 8

Source = Callable[[Block | None], OnnxValue]


def take(graph: GraphBuilder, table: Sequence[TablePattern], columns: int, source: Source) -> OnnxValue:
    """Returns the rows named by a table; `source` reads the block of a pattern, None for a pattern without a block."""
    if len(table) > _MOST_SLICES and not any(map(_grows, table)):
        return _gathered(graph, table, columns, source)
    return graph.below_each_other([_run(graph, pattern, columns, source) for pattern in table])


def rows_by_number(graph: GraphBuilder, value: OnnxValue, table: Sequence[TablePattern]) -> OnnxValue:
    """Returns the rows of one value named by a table."""
    return take(graph, table, value.columns, lambda _: value)


def _grows(pattern: TablePattern) -> bool:
    return any(isinstance(number, Polynomial) for number in (*pattern.first, pattern.iterations))


def _run(graph: GraphBuilder, pattern: TablePattern, columns: int, source: Source) -> OnnxValue:
    first, step, iterations = pattern.first[0], pattern.step[0], pattern.iterations
    period = len(pattern.first)
    rows = period * iterations
    if first == -1 and period == 1:
        return graph.filled(0.0, rows, columns)
    value = source(pattern.blocks[0] if pattern.blocks else None)
    if value.is_repeated and -1 not in pattern.first:
        return replace(value, rows=rows)
    if period == 1 and step == 0:
        row = graph.compact(graph.rows_of(value, first, 1))
        return replace(row, rows=iterations, repeats=(iterations != 1,))
    if period == 1:
        return graph.rows_of(value, first, iterations, step)
    if all(other - one == 1 for one, other in pairwise(pattern.first)) and set(pattern.step) == {period}:
        return graph.rows_of(value, first, rows)
    if -1 in pattern.first:  # the last row
        value = graph.below_each_other([value, graph.filled(0.0, 1, columns)])
    return graph.value(graph.op("Gather", graph.whole(value), _numbers(graph, pattern), axis=1), rows, columns)


def _numbers(graph: GraphBuilder, pattern: TablePattern) -> ir.Value:
    """Returns the row numbers of a pattern as a tensor (rows,)."""
    first = graph.op("Concat", *map(graph.number, pattern.first), axis=0)
    zero, one = graph.constant(np.array(0, np.int64)), graph.constant(np.array(1, np.int64))
    iterations = graph.op("Range", zero, graph.op("Squeeze", graph.number(pattern.iterations)), one)
    moved = graph.op("Mul", graph.op("Unsqueeze", iterations, graph.integers(1)), graph.integers(*pattern.step))
    return graph.op("Reshape", graph.op("Add", moved, first), graph.integers(-1))


def _gathered(graph: GraphBuilder, table: Sequence[TablePattern], columns: int, source: Source) -> OnnxValue:
    """Returns rows without a pattern, of values first put below one another."""
    start: dict[Block | None, int] = {}
    values: list[OnnxValue] = []
    total = 0
    numbers = []
    for pattern in table:
        first = pattern.first[0]
        assert isinstance(first, int)
        assert isinstance(pattern.iterations, int)
        block = pattern.blocks[0] if pattern.blocks else None
        if first == -1:
            numbers.append(np.full(pattern.iterations, -1))
            continue
        if block not in start:
            start[block] = total
            values.append(source(block))
            assert isinstance(values[-1].rows, int)
            total += values[-1].rows
        numbers.append(start[block] + first + pattern.step[0] * np.arange(pattern.iterations))
    rows = np.concatenate(numbers).astype(np.int64)
    whole = graph.whole(graph.below_each_other(values))
    found = graph.op("Gather", whole, graph.constant(np.maximum(rows, 0)), axis=1)
    if (rows < 0).any():
        mask = graph.constant((rows >= 0).reshape(1, -1, 1))
        found = graph.op("Where", mask, found, graph.scalar(0.0))
    return graph.value(found, len(rows), columns)
