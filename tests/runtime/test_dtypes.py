"""Names of types of numbers."""

from __future__ import annotations

import pytest
import torch

from nnet3.engine.runtime.dtypes import DTYPES, dtype_name
from nnet3.errors import ExecutionError


def test_names_and_types() -> None:
    for name in ("float64", "float32", "bfloat16", "float16"):
        assert DTYPES[name] == getattr(torch, name)
        assert dtype_name(name) == dtype_name(DTYPES[name]) == name


@pytest.mark.parametrize("dtype", ["bool", torch.bool, "float", torch.int32, torch.complex64])
def test_what_matrices_cannot_have(dtype: str | torch.dtype) -> None:
    with pytest.raises(ExecutionError, match=r"cannot run in .*; dtypes are: float64, float32, bfloat16, float16$"):
        dtype_name(dtype)
