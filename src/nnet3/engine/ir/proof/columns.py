"""Columns: cuts between the columns of matrices, kernels and named inputs, for comparing programs.

A block of columns uncut by any command of any program is one element per row. Both sides of a copy are cut
alike, and kernels, inputs and outputs are cut alike in all programs:

    m1(:, 0:5) = m2(:, 3:8)        m2 is cut at 3 and 9, m1 at 0 and 6; a cut of m2 within cuts m1 as well
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Hashable, Iterator
from typing import Any, NamedTuple

import numpy as np

#: What has columns: a matrix of one of the programs, an input of a kernel, its output, a name.
Space = Hashable


class ColumnSpan(NamedTuple):
    """Columns [first, first + width) of a space."""

    space: Space
    first: int
    width: int


class Columns:
    """The cuts of all spaces; links say which spans are cut alike."""

    def __init__(self) -> None:
        self._cuts: dict[Space, set[int]] = defaultdict(set)
        self._links: dict[Space, set[tuple[int, int, Space, int]]] = defaultdict(set)  # first, width, other, its first
        self._sorted: dict[Space, list[int]] = {}
        self.programs: dict[int, Any] = {}  # the columns and operands of each program: `ProgramColumns`
        self._blocks: dict[ColumnSpan, slice] = {}

    def use(self, span: ColumnSpan) -> None:
        """Cut at the ends of a span."""
        self._cuts[span.space] |= {span.first, span.first + span.width}

    def link(self, one: ColumnSpan, other: ColumnSpan) -> None:
        """Cut two spans of equal width alike."""
        self.use(one)
        self.use(other)
        if one[:2] != other[:2]:
            self._links[one.space].add((one.first, one.width, other.space, other.first))
            self._links[other.space].add((other.first, other.width, one.space, one.first))

    def settle(self) -> None:
        """Carry cuts over all links until nothing changes."""
        new = {space: set(cuts) for space, cuts in self._cuts.items()}
        while new:
            space, cuts = new.popitem()
            for other, carried in self._carried(space, cuts):
                carried -= self._cuts[other]
                if carried:
                    self._cuts[other] |= carried
                    new.setdefault(other, set()).update(carried)
        self._sorted, self._blocks = {space: sorted(cuts) for space, cuts in self._cuts.items()}, {}

    def _carried(self, space: Space, cuts: set[int]) -> Iterator[tuple[Space, set[int]]]:
        for first, width, other, start in self._links[space]:
            yield other, {cut - first + start for cut in cuts if first <= cut <= first + width}

    def num_blocks(self, space: Space) -> int:
        """Returns into how many blocks a space is cut."""
        return max(len(self._sorted.get(space, ())) - 1, 0)

    def blocks(self, span: ColumnSpan) -> slice:
        """Returns the numbers of the blocks of a span."""
        found = self._blocks.get(span)
        if found is None:
            cuts = self._sorted[span.space]
            first, end = bisect_left(cuts, span.first), bisect_left(cuts, span.first + span.width)
            last = len(cuts) - 1  # nobody looks at columns behind the last cut
            found = self._blocks[span] = slice(min(first, last), min(end, last))
        return found

    def first_columns(self, span: ColumnSpan) -> list[int]:
        """Returns the first column of each block of a span."""
        return self._sorted[span.space][self.blocks(span)]

    def cuts(self, span: ColumnSpan) -> np.ndarray:
        """Returns the first column of each block of a span, (blocks,)."""
        return np.array(self.first_columns(span), np.int64)
