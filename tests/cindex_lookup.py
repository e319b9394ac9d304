"""Which cindex id does (n, t, x) of a network node have? A map that grows while a computation graph is built.

The builder follows dependencies hop by hop, and at each hop asks for whole tables of Indexes at once. The
usual case is a dense block of times for each sequence, so the ids lie in an array `[n, x, t]` and a question is
one gather. Where times are so scattered that the array would be mostly holes, sorted keys take its place.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from nnet3.base.index.index_table import IndexTable, N, T, X
from tests.sorted_keys import SortedKeys

Ids = npt.NDArray[np.int32]

ABSENT = -1
_FREE_CELLS = 10**6  # a grid of up to this size is never called too sparse
_MAX_CELLS_PER_ROW = 64


class CindexLookup:
    """Ids of the Indexes of one network node: what a dict from (n, t, x) to int would be, for whole tables.

    `n_values` are all the sequence numbers that can occur (no descriptor or component ever changes n).
    The cost is O(1) a row, amortised over the growth of the grid (each growth at least doubles a side), and
    the number of array operations does not depend on the number of rows.
    """

    def __init__(self, n_values: Any) -> None:
        self._codes = _Codes(np.unique(np.asarray(n_values, dtype=np.int64)))
        self._grid: Ids = np.zeros(
            (len(self._codes.values), 0, 0), dtype=np.int32
        )  # [n code, x - x_start, t - t_start]
        self._x_start = self._t_start = 0
        self._rows_inserted = 0
        self._sparse: _SparseIds | None = None

    def lookup(self, table: IndexTable) -> Ids:
        """The id of each row, ABSENT (-1) where there is none: shape (rows,)."""
        n, t, x = self._codes(table[:, N]), table[:, T].astype(np.int64), table[:, X].astype(np.int64)
        if self._sparse is not None:
            return self._sparse.lookup(n, t, x)
        if self._grid.size == 0:
            return np.full(len(table), ABSENT, dtype=np.int32)
        _, x_size, t_size = self._grid.shape
        x -= self._x_start
        t -= self._t_start
        inside = (n >= 0) & (x >= 0) & (x < x_size) & (t >= 0) & (t < t_size)
        cell = (n * x_size + x) * t_size + t
        cell[~inside] = 0
        ids = self._grid.reshape(-1)[cell]
        ids[~inside] = ABSENT
        return ids

    def insert(self, table: IndexTable, ids: Ids) -> None:
        """Set the id of each row. As in a dict, a later id for the same row replaces an earlier one."""
        if len(table) == 0:
            return
        n, t, x = self._codes(table[:, N]), table[:, T].astype(np.int64), table[:, X].astype(np.int64)
        assert n.min() >= 0, "a row has an n that was not announced in n_values"
        self._rows_inserted += len(table)
        if self._sparse is None:
            self._make_room(int(t.min()), int(t.max()), int(x.min()), int(x.max()))
        if self._sparse is not None:
            self._sparse.insert(n, t, x, ids)
            return
        self._grid[n, x - self._x_start, t - self._t_start] = ids

    def _make_room(self, t_first: int, t_last: int, x_first: int, x_last: int) -> None:
        """Let the grid reach over these t and x, or go over to sorted keys if it would be too sparse then."""
        num_n, x_size, t_size = self._grid.shape
        x_start, new_x_size = _grown(self._x_start, x_size, x_first, x_last)
        t_start, new_t_size = _grown(self._t_start, t_size, t_first, t_last)
        if (new_x_size, new_t_size) == (x_size, t_size):
            return
        cells = num_n * new_x_size * new_t_size
        if cells > max(_FREE_CELLS, _MAX_CELLS_PER_ROW * self._rows_inserted):
            self._become_sparse()
            return
        grid = np.full((num_n, new_x_size, new_t_size), ABSENT, dtype=np.int32)
        x_shift, t_shift = self._x_start - x_start, self._t_start - t_start
        if self._grid.size:
            grid[:, x_shift : x_shift + x_size, t_shift : t_shift + t_size] = self._grid
        self._grid, self._x_start, self._t_start = grid, x_start, t_start

    def _become_sparse(self) -> None:
        n, x, t = np.nonzero(self._grid != ABSENT)
        self._sparse = _SparseIds(len(self._codes.values))
        self._sparse.insert(n, t + self._t_start, x + self._x_start, self._grid[n, x, t])
        self._grid = self._grid[:, :0, :0]


def _grown(start: int, size: int, first: int, last: int) -> tuple[int, int]:
    """Start and size of a side that also holds first..last: unchanged, or at least twice as long as before."""
    if size == 0:
        return first, last - first + 1
    below, above = max(0, start - first), max(0, last - (start + size - 1))
    if below:
        below = max(below, size)
    if above:
        above = max(above, size)
    return start - below, below + size + above


class _Codes:
    """Numbers 0, 1, 2... for given distinct values in increasing order."""

    def __init__(self, values: npt.NDArray[np.int64]) -> None:
        self.values = values
        self._contiguous = len(values) > 0 and int(values[-1]) - int(values[0]) == len(values) - 1

    def __call__(self, column: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
        """The code of each value, -1 for a value that has none."""
        if len(self.values) == 0:
            return np.full(len(column), -1, dtype=np.int64)
        if self._contiguous:
            codes = column.astype(np.int64) - self.values[0]
            codes[codes >= len(self.values)] = -1
            return np.maximum(codes, -1)
        codes = np.minimum(np.searchsorted(self.values, column), len(self.values) - 1)
        return np.where(self.values[codes] == column, codes, -1)


class _SparseIds:
    """The ids of scattered Indexes: sorted keys made of n code, rank of x among the x that occur, and t.

    Every t fits (32 bits), and so do 2**31 pairs of n and x. When new values of x come up the keys are
    written anew, which keeps their order.
    """

    def __init__(self, num_n: int) -> None:
        self._num_n = num_n
        self._x_codes = _Codes(np.zeros(0, dtype=np.int64))
        self._ids = SortedKeys()

    def lookup(self, n: npt.NDArray[np.int64], t: npt.NDArray[np.int64], x: npt.NDArray[np.int64]) -> Ids:
        x_code = self._x_codes(x)
        ids = self._ids.lookup(self._keys(n, t, x_code))
        ids[(n < 0) | (x_code < 0)] = ABSENT
        return ids

    def insert(self, n: npt.NDArray[np.int64], t: npt.NDArray[np.int64], x: npt.NDArray[np.int64], ids: Ids) -> None:
        old = self._x_codes.values
        all_x = np.union1d(old, x)
        if len(all_x) > len(old):
            assert self._num_n * len(all_x) <= 2**31, "too many pairs of n and x for 64-bit keys"
            self._x_codes = _Codes(all_x)
            self._ids = self._ids.rewritten(lambda keys: self._rekeyed(keys, old))
        self._ids.insert(self._keys(n, t, self._x_codes(x)), ids)

    def _keys(
        self, n: npt.NDArray[np.int64], t: npt.NDArray[np.int64], x_code: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.int64]:
        return ((n * len(self._x_codes.values) + x_code) << 32) + (t + 2**31)

    def _rekeyed(self, keys: npt.NDArray[np.int64], old_x: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        n, old_code = np.divmod(keys >> 32, len(old_x))
        t = (keys & (2**32 - 1)) - 2**31
        return self._keys(n, t, self._x_codes(old_x[old_code]))
