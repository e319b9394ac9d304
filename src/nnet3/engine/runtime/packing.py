"""Packing of blocks into one arena: blocks without a common part of their live ranges may share memory.

A compressed matrix lends its memory to further matrices meanwhile.
"""

from __future__ import annotations

from collections import defaultdict
from operator import attrgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.declarations import Life

ALIGNMENT = 64  # bytes; a cache line, and what vector instructions like
_GOOD_ENOUGH = 1.005  # times what is alive at once: no further attempt is made below this
_MOST_TO_MOVE = 300  # blocks of which some are placed earlier
_MOST_MOVES = 20

Span = tuple[int, int]  # first and last command, both included

#: The representation of a matrix whose span ends, and the one whose span begins: 1, compressed -1, or 0 for none.
_ENDS_AND_BEGINS = {Life.BEGINS: (0, 1), Life.ENDS: (1, 0), Life.COMPRESSES: (1, -1), Life.DECOMPRESSES: (-1, 1)}


def matrix_spans(computation: NnetComputation) -> dict[int, list[Span]]:
    """Returns the live range of each matrix as increasing spans; key -m is matrix m compressed."""
    begun: dict[int, int] = {}
    spans: dict[int, list[Span]] = defaultdict(list)
    for number, command in enumerate(computation.commands):
        for name, life in command.schema.lives:
            matrix = computation.submatrices[getattr(command, name)].matrix
            ends, begins = (representation * matrix for representation in _ENDS_AND_BEGINS[life])
            if ends in begun:
                spans[ends].append((begun.pop(ends), number))
            if begins:
                begun[begins] = number
    for key, first in begun.items():
        spans[key].append((first, len(computation.commands) - 1))
    return dict(spans)


def pack(sizes: ArrayLike, first: ArrayLike, last: ArrayLike) -> tuple[list[int], int]:
    """Returns byte offsets of blocks that live from command `first` to `last`, both included, and the total size.

    Offsets are multiples of ALIGNMENT. Blocks are placed one by one at the lowest offset free during their lives: the
    large ones first, or the long-lived ones. The better of the two results wins. Of few blocks, as long as more is
    taken than what is alive at once, the block reaching highest is then placed earlier.
    """
    cells = -(-np.asarray(sizes, dtype=np.int64).reshape(-1) // ALIGNMENT)
    begin, end = (np.asarray(each, dtype=np.int64).reshape(-1) for each in (first, last))
    meet = (begin[:, np.newaxis] <= end) & (end[:, np.newaxis] >= begin)
    orders = np.lexsort((begin - end, -cells)), np.lexsort((-cells, begin - end))
    best = now = min([_placed(cells, meet, order.tolist()) for order in orders], key=attrgetter("total"))
    alive = (meet & (begin <= begin[:, np.newaxis])) @ cells  # with each block, when it begins
    enough = alive.max(initial=0) * _GOOD_ENOUGH
    for _ in range(_MOST_MOVES if len(cells) <= _MOST_TO_MOVE else 0):
        if now.total <= enough or (highest := int(np.argmax((now.offsets + cells)[now.order]))) == 0:
            break
        order = now.order.copy()
        order.insert(highest // 2, order.pop(highest))
        now = _placed(cells, meet, order)
        best = min(best, now, key=attrgetter("total"))
    return (best.offsets * ALIGNMENT).tolist(), best.total * ALIGNMENT


class _Placed(NamedTuple):
    """The offsets of blocks that were placed in this order, and the total size, in cells."""

    order: list[int]
    offsets: np.ndarray
    total: int


def _placed(cells: np.ndarray, meet: np.ndarray, order: list[int]) -> _Placed:
    """Place blocks at the lowest free offset, in the given order. `meet`: see `stacked`."""
    begins, ends = np.zeros_like(cells), np.zeros_like(cells)  # ends are 0 for blocks that are not placed yet
    for block in order:
        taken = meet[block] & (ends > 0)
        begins[block] = lowest_gap(begins[taken], ends[taken], int(cells[block]))
        ends[block] = begins[block] + cells[block]
    return _Placed(order, begins, int(ends.max(initial=0)))


def stacked(offsets: np.ndarray, meet: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Returns byte offsets of blocks of other sizes, in the order of a packing, and behind them the total size.

    `meet` (blocks, blocks): true for two that live at the same time. `sizes` (blocks, n): n times other ones. Result:
    (blocks + 1, n), multiples of ALIGNMENT.
    """
    cells = -(-sizes // ALIGNMENT)
    begins, ends = np.zeros_like(cells), np.zeros_like(cells)  # ends are 0 for blocks that are not placed yet
    for block in np.argsort(offsets, kind="stable").tolist():
        begins[block] = ends[meet[block]].max(axis=0, initial=0)
        ends[block] = begins[block] + cells[block]
    return np.concatenate([begins, ends.max(axis=0, initial=0, keepdims=True)]) * ALIGNMENT


def lowest_gap(begins: np.ndarray, ends: np.ndarray, size: int) -> int:
    """Returns the lowest begin for `size` cells between intervals, which may overlap, or behind all intervals."""
    by_begin = begins.argsort()
    reached = np.maximum.accumulate(np.concatenate([[0], ends[by_begin]]))
    (fits,) = (begins[by_begin] - reached[:-1] >= size).nonzero()
    return int(reached[fits[0]] if len(fits) else reached[-1])
