"""Packing of blocks into one arena: blocks without a common part of their live ranges may share memory.

A compressed matrix lends its memory to further matrices meanwhile.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.declarations import Life

ALIGNMENT = 64  # bytes; a cache line, and what vector instructions like
_GOOD_ENOUGH = 1.005  # times what is alive at once: no second attempt is made below this
_MOST_TO_SEARCH = 300  # blocks for which a slower, tighter method is tried
_MOST_MOVES = 20
_SHIFT = 40  # a gap is one integer, size << _SHIFT | begin: they sort by size, then by offset
_MASK = (1 << _SHIFT) - 1

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

    Offsets are multiples of ALIGNMENT. Blocks with equal live ranges are placed as one. Best fit is tried in time
    order. Unless the result is good, few blocks are placed largest first, and many by best fit backward in time
    (matrices that grow along the program leave gaps too small for their successors in one direction only). The better
    result wins.
    """
    cells = -(-np.asarray(sizes, dtype=np.int64).reshape(-1) // ALIGNMENT)
    spans = np.stack([np.asarray(first, dtype=np.int64), np.asarray(last, dtype=np.int64)], axis=-1).reshape(-1, 2)
    filled = np.flatnonzero(cells)
    offsets = np.zeros(len(cells), dtype=np.int64)
    if len(filled) == 0:
        return offsets.tolist(), 0
    cells, spans = cells[filled], spans[filled]
    keys, group = np.unique(spans[:, 0] << 32 | spans[:, 1], return_inverse=True)
    order = np.argsort(group.reshape(-1), kind="stable")
    group_size = np.bincount(group.reshape(-1), weights=cells).astype(np.int64)
    before = np.cumsum(cells[order]) - cells[order]
    within = before - np.repeat(np.cumsum(group_size) - group_size, np.bincount(group.reshape(-1)))
    placed, total = _pack_groups(group_size, keys >> 32, keys & 0xFFFFFFFF)
    offsets[filled[order]] = (np.asarray(placed)[group.reshape(-1)[order]] + within) * ALIGNMENT
    return offsets.tolist(), total * ALIGNMENT


def most_alive(sizes: np.ndarray, first: np.ndarray, last: np.ndarray) -> int:
    """Returns the largest sum of sizes alive at one command, the least size of any packing."""
    times = np.concatenate([first, last + 1])
    order = np.argsort(times, kind="stable")
    changes = np.concatenate([sizes, -sizes])[order]
    sums = np.cumsum(changes)
    ends = np.append(np.diff(times[order]) > 0, True)  # all changes of one time have been made
    return int(sums[ends].max(initial=0))


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


def _pack_groups(sizes: np.ndarray, first: np.ndarray, last: np.ndarray) -> tuple[Sequence[int], int]:
    enough = most_alive(sizes, first, last) * _GOOD_ENOUGH
    best = _play(sizes, first, last)
    if best[1] > enough and len(sizes) <= _MOST_TO_SEARCH:
        return min(best, _search(sizes, first, last, enough), key=lambda result: result[1])
    if best[1] > enough:
        best = min(best, _play(sizes, -last, -first), key=lambda result: result[1])
    return best


def _play(sizes: np.ndarray, first: np.ndarray, last: np.ndarray) -> tuple[list[int], int]:
    """Best fit in time order: take the smallest sufficient gap, and join gaps that touch."""
    count = len(sizes)
    times = np.concatenate([last + 1, first])  # at equal times: freed before taken
    events = np.argsort(times, kind="stable")
    size_of, offsets = sizes.tolist(), [0] * count
    gaps: list[int] = []
    end_of: dict[int, int] = {}
    begin_of: dict[int, int] = {}
    top = total = 0  # everything from `top` on is free
    for event in events.tolist():
        if event >= count:
            size = size_of[event - count]
            position = bisect_left(gaps, size << _SHIFT)
            if position == len(gaps):
                offsets[event - count] = top
                top += size
                total = max(total, top)
                continue
            gap = gaps.pop(position)
            begin, left_over = gap & _MASK, (gap >> _SHIFT) - size
            offsets[event - count] = begin
            end = end_of.pop(begin)
            if left_over:
                end_of[begin + size] = end
                begin_of[end] = begin + size
                insort(gaps, left_over << _SHIFT | begin + size)
            else:
                del begin_of[end]
            continue
        begin = offsets[event]
        end = begin + size_of[event]
        if begin in begin_of:  # a gap ends where this block begins
            before = begin_of.pop(begin)
            del end_of[before]
            del gaps[bisect_left(gaps, begin - before << _SHIFT | before)]
            begin = before
        if end == top:
            top = begin
            continue
        if end in end_of:
            after = end_of.pop(end)
            del gaps[bisect_left(gaps, after - end << _SHIFT | end)]
            end = after
        end_of[begin], begin_of[end] = end, begin
        insort(gaps, end - begin << _SHIFT | begin)
    return offsets, total


def _search(sizes: np.ndarray, first: np.ndarray, last: np.ndarray, enough: float) -> tuple[list[int], int]:
    """Place blocks, in turn, at the lowest offset free during their lives; try several orders.

    Begins with the large blocks, and with the long-lived blocks; then, as long as the packing gets better, the block
    reaching highest comes earlier in the order.
    """
    meet = (first[:, np.newaxis] <= last) & (last[:, np.newaxis] >= first)
    np.fill_diagonal(meet, False)
    neighbours, size_of = [np.flatnonzero(row).tolist() for row in meet], sizes.tolist()
    orders = [np.lexsort((first - last, -sizes)).tolist(), np.lexsort((-sizes, first - last)).tolist()]
    tried = [(*_offsets_in_order(size_of, neighbours, order), order) for order in orders]
    best = now = min(tried, key=lambda result: result[1])
    for _ in range(_MOST_MOVES):
        offsets, total, order = now
        highest = next(position for position, block in enumerate(order) if offsets[block] + size_of[block] == total)
        if total <= enough or highest == 0:
            break
        order = order.copy()
        order.insert(highest // 2, order.pop(highest))
        now = (*_offsets_in_order(size_of, neighbours, order), order)
        best = min(best, now, key=lambda result: result[1])
    return best[:2]


def _offsets_in_order(sizes: list[int], neighbours: list[list[int]], order: list[int]) -> tuple[list[int], int]:
    """Place blocks at the lowest free offset, in the given order; `neighbours` have overlapping lives."""
    offsets, total = [-1] * len(sizes), 0
    for block in order:
        taken = sorted([(offsets[other], sizes[other]) for other in neighbours[block] if offsets[other] >= 0])
        offset, size = 0, sizes[block]
        for begin, length in taken:
            if begin - offset >= size:
                break
            offset = max(offset, begin + length)
        offsets[block] = offset
        total = max(total, offset + size)
    return offsets, total


def lowest_gap(begins: np.ndarray, ends: np.ndarray, size: int) -> int:
    """Returns the lowest begin for `size` cells between intervals, which may overlap, or behind all intervals."""
    by_begin = np.argsort(begins)
    reached = np.maximum.accumulate(np.concatenate([[0], ends[by_begin]]))
    fits = np.flatnonzero(begins[by_begin] - reached[:-1] >= size)
    return int(reached[fits[0]] if len(fits) else reached[-1])
