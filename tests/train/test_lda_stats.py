"""Statistics for LDA: sums over rows, one at a time, and files."""

from __future__ import annotations

import numpy as np
import pytest

from nnet3.base.kaldi_io.general import sparse_of
from nnet3.base.options.training import FeatureTransformOptions
from nnet3.errors import TrainingError
from nnet3.kaldi_io import Reader, SparseMatrix, Writer
from nnet3.training.train.lda_stats import LdaStats, estimate_transform, pruned
from tests.seeds import shifted


def _random(rows: int = 7, dim: int = 3, classes: int = 4) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(shifted(5))
    weights = generator.random((rows, classes)) * (generator.random((rows, classes)) < 0.5)
    return generator.normal(size=(rows, dim)).astype(np.float32), weights.astype(np.float32)


def test_each_row_counts_by_its_weights() -> None:
    features, weights = _random()
    stats = LdaStats.of_rows(features, sparse_of(weights))
    zero, first, second = np.zeros(4), np.zeros((4, 3)), np.zeros((3, 3))
    for x, row in zip(features.astype(float), weights, strict=True):
        for c, w in enumerate(row.astype(float)):
            zero[c] += w
            first[c] += w * x
            second += w * np.outer(x, x)
    np.testing.assert_allclose(stats.zero, zero)
    np.testing.assert_allclose(stats.first, first, atol=1e-12)
    np.testing.assert_allclose(stats.second, second, atol=1e-12)


@pytest.mark.parametrize("binary", [True, False])
def test_files_keep_statistics(binary: bool) -> None:
    stats = LdaStats.of_rows(*(f(each) for f, each in zip((np.asarray, sparse_of), _random(), strict=True)))
    writer = Writer(binary)
    writer.header()
    stats.write_to(writer)
    read = LdaStats.read(Reader(writer.getvalue()))
    for part in ("zero", "first", "second"):
        np.testing.assert_allclose(getattr(read, part), getattr(stats, part), rtol=1e-5, atol=1e-6)


def test_statistics_of_other_sizes_are_not_added() -> None:
    small = LdaStats(np.zeros(2), np.zeros((2, 3)), np.zeros((3, 3)))
    with pytest.raises(TrainingError, match="2 classes of 3 and 2 classes of 4 dimensions"):
        small + LdaStats(np.zeros(2), np.zeros((2, 4)), np.zeros((4, 4)))


def test_pruned_weights_are_the_threshold_or_nothing() -> None:
    weights = SparseMatrix(2, 3, np.array([0, 2, 3]), np.array([0, 2, 1], np.int32), np.array([0.5, 9, -1], np.float32))
    seen = [pruned(weights, 4.0, np.random.default_rng(seed)).dense() for seed in range(400)]
    assert {tuple(matrix[0].tolist()) for matrix in seen} == {(0.0, 0.0, 9.0), (4.0, 0.0, 9.0)}
    assert {matrix[1, 1].item() for matrix in seen} == {0.0, -4.0}
    assert np.mean([matrix[0, 0] for matrix in seen]) == pytest.approx(0.5, abs=0.25)
    assert pruned(weights, 0.0, np.random.default_rng(0)) is weights


def test_no_dimension_stands_for_all() -> None:
    features, weights = _random(rows=40)
    stats = LdaStats.of_rows(features, sparse_of(weights))
    every = estimate_transform(stats, FeatureTransformOptions(dim=3)).matrix
    for dim in (0, -1, -7):
        np.testing.assert_array_equal(estimate_transform(stats, FeatureTransformOptions(dim=dim)).matrix, every)
