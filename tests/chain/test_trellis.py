"""Sums in the log domain."""

from __future__ import annotations

import torch

from nnet3.training.chain.trellis import log_sums


def test_log_sums_do_not_overflow() -> None:
    values = torch.tensor([0.0, 1000.0, 1000.0, -torch.inf, -2000.0], dtype=torch.float64)
    sums = log_sums(values, torch.tensor([0, 1, 1, 3, 0]), 4)
    expected = [0.0, 1000.0 + float(torch.log(torch.tensor(2.0, dtype=torch.float64))), -torch.inf, -torch.inf]
    torch.testing.assert_close(sums, torch.tensor(expected, dtype=torch.float64))


def test_nan_and_infinity_come_through() -> None:
    sums = log_sums(torch.tensor([torch.nan, 1.0, torch.inf]), torch.tensor([0, 0, 1]), 2)
    assert not sums.isfinite().any()
