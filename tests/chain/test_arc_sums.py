"""Sums over transitions against a loop, for structures that take each of the ways to add up."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from nnet3.training.chain import arc_sums as module
from nnet3.training.chain.arc_sums import ProductsThenSums, SegmentSums, SumsThenProducts, arc_sums


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_sums_of_segments(seed: int, weighted: bool) -> None:
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


KINDS = {
    "nothing in common": ([7, 50, 60], [0, 1, 2], SumsThenProducts),
    "row and second": ([7, 50], [0, 1, 0], SumsThenProducts),
    "row and first": ([7, 60], [0, 0, 1], SumsThenProducts),
    "first and second": ([7, 3], [0, 1, 1], ProductsThenSums),
}


@pytest.mark.parametrize("block", [1, 5, 8192])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("blocks", [False, True])
def test_sums_over_arcs_are_those_of_a_loop(
    kind: str, blocks: bool, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_BLOCK", block)
    sizes, columns, expected_way = KINDS[kind]
    rng = np.random.default_rng(1)
    row, first, second = rng.integers(sizes, size=(40, len(sizes)))[:, columns].T
    weights = rng.random(40)
    a, b = rng.random((50, 3)), rng.random((60, 3))
    expected = np.zeros((9, 3))
    for k in range(40):
        expected[row[k]] += weights[k] * a[first[k]] * b[second[k]]
    sums = arc_sums(9, row, first, second, weights, blocks=blocks)
    assert isinstance(sums, expected_way)
    groups = [len({*zip(*pair, strict=True)}) for pair in ((row, second), (row, first), (first, second))]
    assert sums.scratch <= (min(groups) if isinstance(sums, SumsThenProducts) else 2 * min(groups))
    if isinstance(sums, SumsThenProducts):
        sizes_of_blocks = [len(part.other_of_group) for part in sums.blocks]
        assert sum(sizes_of_blocks) == min(groups[:2])
        assert (len(sums.blocks) == 1) == (not blocks or block == 8192)
    scratch = torch.full((sums.scratch, 3), torch.nan, dtype=torch.float64)
    np.testing.assert_allclose(sums(torch.from_numpy(a), torch.from_numpy(b), scratch), expected, rtol=1e-12)


def test_what_is_in_common_is_looked_up_once() -> None:
    """As in graphs of phones: the state that is led to says what the pdf is."""
    rng = np.random.default_rng(0)
    source, destination = rng.integers(100, size=(2, 2000))
    weights = np.ones(2000)
    forward = arc_sums(100, destination, source, destination // 2, weights, blocks=True)
    backward = arc_sums(100, source, destination, destination // 2, weights, blocks=True)
    gamma = arc_sums(50, destination // 2, source, destination, weights, blocks=True)
    assert max(forward.scratch, backward.scratch, gamma.scratch) <= 200
