"""Weighted sums of rows against a loop."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from nnet3.chain.segment_sums import SegmentSums


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_sums(seed: int, weighted: bool) -> None:
    rng = np.random.default_rng(seed)
    row, taken = rng.integers(6, size=20), rng.integers(9, size=20)
    weights = rng.random(20) if weighted else None
    rows = rng.random((9, 4))
    expected = np.zeros((6, 4))
    for k in range(20):
        expected[row[k]] += rows[taken[k]] * (1.0 if weights is None else weights[k])
    sums = SegmentSums.sorted_by(row, taken, 6, weights)
    np.testing.assert_allclose(sums(torch.from_numpy(rows)), expected, rtol=1e-12)
    single = sums.to(torch.device("cpu"), torch.float32)
    np.testing.assert_allclose(single(torch.from_numpy(rows).float()), expected, rtol=1e-5)


def test_rows_without_terms_are_zero() -> None:
    sums = SegmentSums.sorted_by(np.array([1]), np.array([0]), 3)
    assert sums(torch.tensor([[2.0]])).tolist() == [[0.0], [2.0], [0.0]]
