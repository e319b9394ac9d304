"""One piece of memory for all matrices of a computation: those that never live at the same time may share a place."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

ALIGNMENT = 64  # bytes; a cache line, and what vector instructions like


@dataclass(frozen=True)
class Block:
    """A request for memory from command `first` to command `last`, both included."""

    num_bytes: int
    first: int
    last: int


def pack(blocks: Sequence[Block]) -> tuple[list[int], int]:
    """A byte offset for each block, so that blocks alive at the same command do not overlap, and the total size.

    Plays an allocator that always takes the smallest free gap, once forward and once backward in time (matrices
    that grow along the program leave gaps too small for their successors in one direction only); the better one wins.
    """
    forward = _play(blocks, [(block.first, block.last) for block in blocks])
    backward = _play(blocks, [(-block.last, -block.first) for block in blocks])
    return min(forward, backward, key=lambda result: result[1])


def _play(blocks: Sequence[Block], spans: Sequence[tuple[int, int]]) -> tuple[list[int], int]:
    events = [(first, True, number) for number, (first, _) in enumerate(spans) if blocks[number].num_bytes]
    events += [(last + 1, False, number) for number, (_, last) in enumerate(spans) if blocks[number].num_bytes]
    gaps = _Gaps()
    offsets, total = [0] * len(blocks), 0
    for _, begins, number in sorted(events):  # at equal times False comes first: freed before taken
        size = -(-blocks[number].num_bytes // ALIGNMENT) * ALIGNMENT
        if begins:
            offsets[number] = gaps.take(size)
            total = max(total, offsets[number] + size)
        else:
            gaps.give_back(offsets[number], size)
    return offsets, total


class _Gaps:
    """Free ranges (begin, end) in increasing order, never adjacent; the last one has no end."""

    def __init__(self) -> None:
        self.ranges: list[tuple[int, float]] = [(0, float("inf"))]

    def take(self, size: int) -> int:
        """The begin of the smallest range with `size` bytes, which are free no more."""
        _, place = min((end - begin, i) for i, (begin, end) in enumerate(self.ranges) if end - begin >= size)
        begin, end = self.ranges[place]
        if end - begin == size:
            del self.ranges[place]
        else:
            self.ranges[place] = (begin + size, end)
        return begin

    def give_back(self, begin: int, size: int) -> None:
        end: float = begin + size
        place = bisect(self.ranges, (begin, end))
        if self.ranges[place][0] == end:
            end = self.ranges.pop(place)[1]
        if place > 0 and self.ranges[place - 1][1] == begin:
            place -= 1
            begin = self.ranges.pop(place)[0]
        self.ranges.insert(place, (begin, end))


class Arena:
    """The memory itself: views of the blocks it was made for. What it holds at first is undefined."""

    def __init__(self, blocks: Sequence[Block], device: torch.device) -> None:
        self.offsets, self.num_bytes = pack(blocks)
        self.storage = torch.empty(self.num_bytes, dtype=torch.uint8, device=device)

    def typed(self, dtype: torch.dtype) -> Tensor:
        """All of it as a one-dimensional tensor."""
        return self.storage.view(dtype)

    def block(self, number: int, shape: tuple[int, int], dtype: torch.dtype) -> Tensor:
        """Block `number` as a matrix."""
        num_bytes = shape[0] * shape[1] * dtype.itemsize
        begin = self.offsets[number]
        return self.storage[begin : begin + num_bytes].view(dtype).view(shape)
