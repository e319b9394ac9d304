"""Numbers in info lines."""

from __future__ import annotations

import pytest
import torch

from nnet3.components.summary import mean_stddev


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_mean_and_standard_deviation_of_any_dtype(dtype: torch.dtype) -> None:
    assert mean_stddev("bias", torch.tensor([[0.5, 1.5]], dtype=dtype)) == ", bias-{mean,stddev}=1,0.5"
    assert mean_stddev("bias", torch.empty(0, dtype=dtype)) == ", bias-{mean,stddev}=0,0"
