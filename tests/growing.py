"""Arrays that grow at the end in amortised constant time per element."""

from __future__ import annotations

import numpy as np


class GrowingArray:
    """`values` is a view of what has been appended so far."""

    def __init__(self, dtype: type, width: int | None = None, capacity: int = 1024):
        self._shape = () if width is None else (width,)
        self._store = np.empty((capacity, *self._shape), dtype)
        self._length = 0

    def __bool__(self) -> bool:
        return True  # an empty one is not nothing

    def __len__(self) -> int:
        return self._length

    @property
    def values(self) -> np.ndarray:
        return self._store[: self._length]

    def append(self, values: np.ndarray) -> None:
        needed = self._length + len(values)
        if needed > len(self._store):
            bigger = np.empty((max(needed, 2 * len(self._store)), *self._shape), self._store.dtype)
            bigger[: self._length] = self._store[: self._length]
            self._store = bigger
        self._store[self._length : needed] = values
        self._length = needed

    def extend(self, count: int, value: int) -> None:
        """Append `count` copies of a value."""
        self.append(np.full((count, *self._shape), value, self._store.dtype))
