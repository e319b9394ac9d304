"""Named tuples of arrays of equal length: chosen rows, joined rows, and rows that wait for a level of a lattice."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from nnet3.base.kaldi_io.lattice import Strings

C = TypeVar("C", bound=tuple[Any, ...])
"""A named tuple whose fields are arrays, or `Strings`, with equally many rows."""


def part(columns: C, chosen: npt.NDArray[Any]) -> C:
    """Returns the chosen rows: numbers of rows, or a mask."""
    return type(columns)(*(column[chosen] for column in columns))


def joined(parts: Iterable[C]) -> C:
    """Returns the rows of several columns, at least one, concatenated."""
    first, *others = parts
    return type(first)(*map(_in_a_row, zip(first, *others, strict=True)))


def _in_a_row(column: Sequence[Any]) -> Any:
    return Strings.joined(column) if isinstance(column[0], Strings) else np.concatenate(column)


class Waiting(Generic[C]):
    """Holds rows by level, for an algorithm that goes through a lattice level by level."""

    def __init__(self) -> None:
        self._parts = defaultdict[int, list[C]](list)

    def add(self, columns: C, level: npt.NDArray[np.integer]) -> None:
        """Adds the rows of `columns`; `level` (rows,) is the level of each row."""
        for number in np.unique(level).tolist():
            self._parts[number].append(part(columns, level == number))

    def take(self, level: int) -> C | None:
        """Removes and returns the rows of `level`; None without rows."""
        parts = self._parts.pop(level, None)
        return None if parts is None else joined(parts)
