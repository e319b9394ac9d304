"""Kinds of NumPy arrays, of any shape."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.integer]
Flags = npt.NDArray[np.bool_]
Singles = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Rows = Singles  # (frames, columns)
