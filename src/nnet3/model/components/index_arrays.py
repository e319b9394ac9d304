"""Arrays precomputed by components from indexes of rows, and arrays loaded to a device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

#: The result of `precompute_indexes`: arrays of integers or truth values by name, numbers as arrays without axes.
IndexArrays = dict[str, np.ndarray]


def on_device(array: np.ndarray, device: torch.device | str) -> Tensor:
    """Returns a copy as a tensor, integers as int64."""
    return torch.from_numpy(array.astype(np.int64 if array.dtype.kind in "iu" else array.dtype)).to(device)


def load_fields(arrays: Mapping[str, np.ndarray], device: torch.device | str) -> dict[str, Any]:
    """Returns for each array a tensor on the device, or a plain number if it has no axes."""
    return {name: array.item() if array.ndim == 0 else on_device(array, device) for name, array in arrays.items()}
