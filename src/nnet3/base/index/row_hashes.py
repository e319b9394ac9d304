"""Numbers that stand for rows of integers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_MIX = np.array([0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB], np.uint64)


def mixed(first: npt.NDArray[np.generic], *others: npt.NDArray[np.generic]) -> npt.NDArray[np.uint64]:
    """Returns a number for each row of some columns of integers, which no two rows share but by an accident."""
    key = first.astype(np.uint64) * _MIX[0]
    with np.errstate(over="ignore"):
        for column in (*others, np.zeros(1)):
            key = (key ^ key >> np.uint64(29)) * _MIX[2] + column.astype(np.uint64) * _MIX[1]
        return key ^ key >> np.uint64(32)
