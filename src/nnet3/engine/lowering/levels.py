"""Levels: inside a recurrent epoch, the longest chain of needs below an item; and the rows that a step reads.

The levels of a recurrence grow by a fixed amount a period. So levels are followed for a few periods only, continued by
arithmetic, and checked: if no item needs itself, the equation level = 1 + max(levels needed) has one solution, so
levels that solve the equation are right. Irregular levels are followed to the end.

Items 1 to 3 need the item before, item 0 needs none (4):

>>> levels_of(np.array([[4], [0], [1], [2]]), [np.arange(4)]).tolist()
[0, 1, 2, 3]

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
import numpy.typing as npt

from nnet3.base.index import IndexTable, N, T, distinct, find_rows
from nnet3.engine.lowering.graph import NO_ITEM, ComputationGraph
from nnet3.engine.lowering.source import GraphSource
from nnet3.engine.schedule import exact_levels

Levels = npt.NDArray[np.int64]

_FIRST_ROUNDS, _LAST_ROUNDS = 32, 256
_FEW_NODES = 6  # whose levels show their pattern within the first rounds
_CHECKS = 12
_LOOKS = 4  # rounds after which one looks whether levels are at rest
_MAX_PERIOD = 48  # rows of one group after which the pattern of levels repeats


def levels_of(needs: np.ndarray, groups: list[np.ndarray]) -> Levels:
    """Returns the level of every item, (items,).

    `needs` (items, slots): the items that an item needs; the number of items stands for none. `groups`: groups of items
    in the order of time, along which levels may be regular. Raises CycleError.
    """
    num_items = len(needs)
    level = np.zeros(num_items + 1, dtype=np.int64)
    level[-1] = -1
    columns = np.ascontiguousarray(needs.T)
    rounds, done = _FIRST_ROUNDS * (2 if len(groups) > _FEW_NODES else 1), 0
    while rounds <= _LAST_ROUNDS:
        if _iterate(level, columns, rounds - done):
            return level[:-1]
        guess = level.copy()
        for items in groups:
            guess[items] = _continued(level[items], rounds)
        if _iterate(guess, columns, _CHECKS):
            return guess[:-1]
        done, rounds = rounds, 2 * rounds
    user, slot = np.nonzero(needs < num_items)
    return exact_levels(num_items, user, needs[user, slot]).astype(np.int64)


def _iterate(level: Levels, columns: np.ndarray, rounds: int) -> bool:
    """Set level = 1 + max(levels needed) up to `rounds` times; returns True if it came to rest."""
    needed, own = np.empty(columns.shape, level.dtype), level[:-1]
    for number in range(rounds):
        level.take(columns, out=needed, mode="clip")
        before = own.copy() if number % _LOOKS == 0 else None
        np.maximum.reduce(needed, axis=0, out=own)
        own += 1
        if before is not None and not (own != before).any():
            return True
    return False


def _continued(level: Levels, rounds: int) -> Levels:
    """Returns the levels, with guesses from `rounds` on: these continue the pattern in time of the lower ones."""
    settled = level < rounds
    count = int(settled.sum())
    if count == len(level) or count < 3:
        return level
    if settled[:count].all():
        return _extended(level, count)
    if settled[-count:].all():
        return _extended(level[::-1], count)[::-1]
    return level


def _extended(level: Levels, count: int) -> Levels:
    """Returns the first `count` levels continued: a period repeats the period before, higher by a constant.

    The latter two thirds of the levels must follow the pattern; a few levels might do so by chance.
    """
    known, regular = level[:count], level[count // 3 : count]
    for period in range(1, min(len(regular) // 2, _MAX_PERIOD) + 1):
        rise = regular[period:] - regular[:-period]
        if (rise == rise[0]).all():
            beyond = np.arange(len(level) - count)
            times, position = np.divmod(beyond, period)
            result = level.copy()
            result[count:] = known[count - period + position] + rise[0] * (times + 1)
            return result
    return level


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
