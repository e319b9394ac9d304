"""RowBuffer: rows of an array that grows at the end and may forget rows at the beginning."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from nnet3.speech.arrays.aliases import Integers


class RowBuffer:
    """Rows (n, columns), numbered from 0; the rows from `start` on are kept."""

    def __init__(self, columns: int, dtype: npt.DTypeLike = np.float32):
        self._rows = np.zeros((64, columns), dtype)
        self._used = 0
        self.start = 0

    def __len__(self) -> int:
        """Returns the number of rows ever appended, forgotten rows included."""
        return self.start + self._used

    def append(self, rows: npt.NDArray[Any]) -> None:
        needed = self._used + len(rows)
        if needed > len(self._rows):
            grown = np.zeros((max(needed, 2 * len(self._rows)), self._rows.shape[1]), self._rows.dtype)
            grown[: self._used] = self._rows[: self._used]
            self._rows = grown
        self._rows[self._used : needed] = rows
        self._used = needed

    def take(self, numbers: Integers) -> npt.NDArray[Any]:
        """Returns the rows with the given numbers, (n, columns)."""
        return self._rows[numbers - self.start]

    def row(self, number: int) -> npt.NDArray[Any]:
        """Returns the row of a number, (columns,), which may be written to."""
        return self._rows[number - self.start]

    def forget(self, first: int) -> None:
        """Drops the rows before number `first`."""
        drop = min(first, len(self)) - self.start
        if drop > 0:
            self._rows[: self._used - drop] = self._rows[drop : self._used].copy()
            self._used -= drop
            self.start += drop
