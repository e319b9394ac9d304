"""The rows that a step reads, and its own rows, in the order that its kernel wants.

A convolution works on a grid of times. For y at t = 0, 1, 3, cindexes 6, 7, 8, the convolution wants a row of padding
at t = 2:

>>> from tests.lowering.examples import convolution
>>> each = convolution()
>>> arranged = arrange_step(each.source, each.graph, 2, np.array([6, 7, 8]))
>>> arranged.inputs.tolist(), arranged.outputs.tolist()
([3, 4, -1, 5], [6, 7, -1, 8])
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nnet3.base.index import IndexTable, N, T, distinct, find_rows
from nnet3.engine.lowering.graph import NO_ITEM, ComputationGraph
from nnet3.engine.lowering.source import GraphSource


class Arranged(NamedTuple):
    """The cindexes of the operand's rows and of the step's own rows, in the kernel's order; NO_ITEM for padding."""

    inputs: np.ndarray
    outputs: np.ndarray


class NotInBlocks(Exception):
    """A kernel does not keep the members of a class together: they must be told apart."""


def arrange_step(source: GraphSource, graph: ComputationGraph, node: int, items: np.ndarray) -> Arranged:
    """Returns the rows read by a step of given cindexes, and the step's rows, as `GraphSource.arrange` orders rows.

    The kernel is asked with two members of every class (one if the classes have one). If the kernel keeps the two side
    by side, any number of members can stand in place of the two; else NotInBlocks is raised.
    """
    used = graph.slots[node][items - graph.first[node]]
    used = distinct(used[used >= 0])
    tables = graph.indexes[used], graph.indexes[items]
    two = graph.multiplicity > 1
    if two:
        tables = _doubled(graph, tables[0]), _doubled(graph, tables[1])
    inputs, outputs = source.arrange(node, *tables)
    if inputs is tables[0] and outputs is tables[1]:
        return Arranged(used, items)
    if two:
        return Arranged(_follow_in_pairs(used, tables[0], inputs), _follow_in_pairs(items, tables[1], outputs))
    return Arranged(_follow(used, tables[0], inputs), _follow(items, tables[1], outputs))


def _doubled(graph: ComputationGraph, table: IndexTable) -> IndexTable:
    """Returns the first two members of each row's class."""
    rows = np.repeat(table, 2, axis=0)
    representative = np.searchsorted(graph.members[:, 0], table[:, N])
    rows[:, N] = graph.members[representative, :2].reshape(-1)
    return rows


def _follow_in_pairs(items: np.ndarray, table: IndexTable, ordered: IndexTable) -> np.ndarray:
    """Returns the items in the order of `ordered`; `ordered` and `table` have two rows, two members, per item."""
    first, second = ordered[0::2], ordered[1::2]
    if len(ordered) % 2 or (first[:, T] != second[:, T]).any():
        raise NotInBlocks
    position = find_rows(table, ordered)
    real = position[0::2] >= 0
    if (position[1::2][real] != position[0::2][real] + 1).any() or (position[0::2][real] % 2).any():
        raise NotInBlocks
    return np.where(real, items[position[0::2] // 2], NO_ITEM).astype(np.int32)


def _follow(items: np.ndarray, table: IndexTable, ordered: IndexTable) -> np.ndarray:
    """Returns the items in the order of `ordered`, whose rows are those of `table` and padding."""
    if np.array_equal(ordered, table):
        return items
    rows = find_rows(table, ordered)
    return np.where(rows >= 0, items[rows], NO_ITEM).astype(np.int32)
