"""Grid: the times and x of one node seen by the sweeps, all pairs of a time and an x.

>>> grid = Grid(((0, 3),), (0, 1))  # t = 0..3, x = 0, 1
>>> grid.shape
(4, 2)
>>> grid.find(np.array([0, 3, 4]), np.array([1, 0, 0])).tolist()  # no row for t = 4
[1, 6, -1]
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from nnet3.base.index import NO_TIME, IndexTable, T, X, distinct
from nnet3.errors import RequestError

Interval = tuple[int, int]  # both ends belong to it
Int64 = npt.NDArray[np.int64]

FARTHEST = 2**30
"""Times and x beyond this are refused: sums of them and of offsets might leave int32."""

_GAP = 1000  # times further apart than this are not filled up


class Grid:
    """`times` and `xs` ascend; row i * len(xs) + j stands for (times[i], xs[j])."""

    def __init__(self, intervals: tuple[Interval, ...], xs: tuple[int, ...]):
        self.intervals, self.x_values = intervals, xs
        pieces = [np.arange(low, high + 1) for low, high in intervals]
        self.times: Int64 = pieces[0] if len(pieces) == 1 else np.concatenate([np.empty(0, np.int64), *pieces])
        self.xs: Int64 = np.array(xs, np.int64)
        self.shape = len(self.times), len(xs)
        self.whole = slice(0, len(self.times)), slice(0, len(xs))
        self._tables: dict[int, IndexTable] = {}

    @property
    def is_contiguous(self) -> bool:
        return len(self.intervals) == 1

    @property
    def num_rows(self) -> int:
        return self.shape[0] * self.shape[1]

    def table(self, copies: int = 1) -> IndexTable:
        """Returns the index (n = 0) of each row, each `copies` times in a row, (rows * copies, 3)."""
        if copies not in self._tables:
            table = np.zeros((*self.shape, copies, 3), np.int32)
            table[..., T] = self.times[:, np.newaxis, np.newaxis]
            table[..., X] = self.xs[:, np.newaxis]
            self._tables[copies] = table.reshape(-1, 3)
        return self._tables[copies]

    def covers(self, other: Grid) -> bool:
        """True if this grid holds all times from the first to the last of `other`, and its x."""
        if not (self.is_contiguous and other.intervals):
            return self is other
        inside = self.intervals[0][0] <= other.intervals[0][0] and other.intervals[-1][1] <= self.intervals[0][1]
        return inside and (self.x_values == other.x_values or set(self.x_values) >= set(other.x_values))

    def widened(self, step: int) -> Grid:
        """Returns the grid with its first and last time moved out to multiples of `step`, without gaps."""
        if not self.intervals:
            return self
        low, high = self.intervals[0][0] // step * step, (self.intervals[-1][1] // step + 1) * step - 1
        return Grid(((low, high),), self.x_values) if high - low < 2**20 else self

    def find_times(self, times: Int64) -> Int64:
        """Returns the positions of `times` among the grid's times, -1 for a time not in the grid."""
        if self.is_contiguous:
            position = times - self.intervals[0][0]
            position[(position < 0) | (position >= len(self.times))] = -1
            return position
        return positions_of(self.times, times)

    def find_xs(self, xs: Int64) -> Int64:
        return positions_of(self.xs, xs)

    def find(self, times: Int64, xs: Int64) -> Int64:
        """Returns the row of each pair, -1 for missing pairs."""
        t, x = self.find_times(times), self.find_xs(xs)
        return np.where((t >= 0) & (x >= 0), t * self.shape[1] + x, -1)


class SingleGrid(Grid):
    """The grid of a value without samples: one row, found by every index."""

    def __init__(self) -> None:
        super().__init__(((0, 0),), (0,))
        self.times = np.array([NO_TIME], np.int64)

    def find(self, times: Int64, xs: Int64) -> Int64:
        return np.zeros(np.broadcast(times, xs).shape, np.int64)


def positions_of(values: Int64, wanted: Int64) -> Int64:
    """Returns the positions of wanted values among ascending ones, -1 for those that are missing."""
    if len(values) == 0:
        return np.full(wanted.shape, -1)
    position = np.minimum(np.searchsorted(values, wanted), len(values) - 1)
    return np.where(values[position] == wanted, position, -1)


def merged(intervals: Iterable[Interval]) -> tuple[Interval, ...]:
    """Returns the union of intervals, small gaps filled. Raises RequestError near the limits of int32."""
    result: list[Interval] = []
    ordered = list(intervals)
    if len(ordered) > 1:
        ordered.sort()
    for low, high in ordered:
        if result and low <= result[-1][1] + _GAP:
            result[-1] = result[-1][0], max(high, result[-1][1])
        else:
            result.append((low, high))
    if result and (result[0][0] < -FARTHEST or result[-1][1] > FARTHEST):
        far = result[0][0] if result[0][0] < -FARTHEST else result[-1][1]
        raise RequestError(f"t = {far} would be needed, which is too near the limits of int32 (at most {FARTHEST})")
    return tuple(result)


def intervals_of(times: npt.NDArray[np.integer]) -> list[Interval]:
    """Returns intervals over `times`, given in any order; small gaps are filled."""
    if times.size == 0:
        return []
    low, high = int(times.min()), int(times.max())
    if high - low <= _GAP:
        return [(low, high)]
    present = distinct(times).astype(np.int64)
    cuts = np.flatnonzero(np.diff(present) > _GAP)
    firsts, lasts = np.append(0, cuts + 1), np.append(cuts, len(present) - 1)
    return list(zip(present[firsts].tolist(), present[lasts].tolist(), strict=True))
