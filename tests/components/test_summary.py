"""Numbers in info lines."""

from __future__ import annotations

import pytest
import torch

from nnet3.components.summary import mean_stddev


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("value", [0.5, -0.2243, 1e-3])
def test_the_standard_deviation_of_one_value_is_small(value: float, dtype: torch.dtype) -> None:
    text = mean_stddev("bias", torch.tensor([value], dtype=dtype))
    mean, stddev = text.partition("=")[2].split(",")
    assert float(mean) == pytest.approx(value, rel=1e-2)
    assert 0 <= float(stddev) < 1e-3
