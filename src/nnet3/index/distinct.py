"""The different numbers of an array."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt

Integer = TypeVar("Integer", bound=np.integer)


def distinct(numbers: npt.NDArray[Integer]) -> npt.NDArray[Integer]:
    """The different numbers of an array of any shape, ascending, (numbers,).

    `np.unique` gives the same, but looks numbers up in a hash table, which takes ten times as long where many of them
    are different.
    """
    ordered = np.sort(numbers, axis=None)
    is_first = np.ones(len(ordered), dtype=bool)
    is_first[1:] = ordered[1:] != ordered[:-1]
    return ordered[is_first]
