"""DTYPES: the dtypes of matrices, by the names that plans use."""

from __future__ import annotations

import torch

from nnet3.errors import ExecutionError

DTYPES: dict[str, torch.dtype] = {
    "float64": torch.float64,
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "bool": torch.bool,
}
DTYPE_NAMES = {dtype: name for name, dtype in DTYPES.items()}


def dtype_name(dtype: torch.dtype | str) -> str:
    """Returns the name of a floating-point dtype. Raises ExecutionError for a dtype that matrices cannot have."""
    name = DTYPE_NAMES.get(dtype, str(dtype)) if isinstance(dtype, torch.dtype) else dtype
    if name not in DTYPES or name == "bool":
        known = ", ".join(each for each in DTYPES if each != "bool")
        raise ExecutionError(f"a computation cannot run in {name}; dtypes are: {known}")
    return name
