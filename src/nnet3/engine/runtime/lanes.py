"""Lanes: the dtypes of matrices, by the names that plans use."""

from __future__ import annotations

import torch

from nnet3.errors import ExecutionError

LANES: dict[str, torch.dtype] = {
    "float64": torch.float64,
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "bool": torch.bool,
}
LANE_NAMES = {dtype: name for name, dtype in LANES.items()}


def lane_of(dtype: torch.dtype | str) -> str:
    """Returns the name of a floating-point dtype. Raises ExecutionError for a dtype that matrices cannot have."""
    name = LANE_NAMES.get(dtype, str(dtype)) if isinstance(dtype, torch.dtype) else dtype
    if name not in LANES or name == "bool":
        known = ", ".join(lane for lane in LANES if lane != "bool")
        raise ExecutionError(f"a computation cannot run in {name}; dtypes are: {known}")
    return name
