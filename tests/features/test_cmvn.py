"""Statistics of means and variances, and features normalised by them, number by number as Kaldi adds them up."""

from __future__ import annotations

import numpy as np
import pytest

from nnet3.errors import Nnet3Error
from nnet3.speech.features.cmvn import Normalising, add_to_stats

RNG = np.random.default_rng(3)
FEATURES = (RNG.normal(5, 3, (40, 4)) * 10).astype(np.float32)
F = np.float32


def _slow_stats(features: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """One number after the other: products in float32, sums in float64."""
    stats = np.zeros((2, features.shape[1] + 1))
    for row, weight in zip(features, weights, strict=True):
        stats[0, -1] += weight
        for column, x in enumerate(row):
            stats[0, column] += F(x * weight)
            stats[1, column] += F(F(x * x) * weight)
    return stats


@pytest.mark.parametrize("weighted", [False, True])
def test_sums_have_the_bits_of_adding_frame_by_frame(weighted: bool) -> None:
    weights = RNG.uniform(0, 1, 40).astype(np.float32) if weighted else np.ones(40, np.float32)
    expected = _slow_stats(FEATURES, weights)
    given = weights if weighted else None
    np.testing.assert_array_equal(add_to_stats(None, FEATURES, given), expected)
    halves = add_to_stats(None, FEATURES[:13], None if given is None else given[:13])
    np.testing.assert_array_equal(add_to_stats(halves, FEATURES[13:], None if given is None else given[13:]), expected)


def _slow(features: np.ndarray, stats: np.ndarray, options: Normalising) -> np.ndarray:
    """Kaldi's ApplyCmvn and ApplyCmvnReverse, number by number."""
    result, count = features.copy(), stats[0, -1]
    for column in range(features.shape[1]):
        total, square = (0.0, count) if column in options.skipped else (stats[0, column], stats[1, column])
        mean = total / count
        scale = 1.0 / np.sqrt(max(square / count - mean**2, 1e-20)) if options.variances else 1.0
        for row in result:
            if options.reverse:
                row[column] = F(row[column] * F(1 / scale)) + F(mean)
            elif options.variances:
                row[column] = F(row[column] * F(scale)) + F(-(mean * scale))
            else:
                row[column] = row[column] + F(float(F(-1.0 / count)) * total)
    return result


@pytest.mark.parametrize("variances", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("skipped", [(), (1, 3)])
def test_normalising_has_the_bits_of_kaldis_formula(variances: bool, reverse: bool, skipped: tuple[int, ...]) -> None:
    options, stats = Normalising(variances, reverse, skipped), add_to_stats(None, FEATURES)
    found = options.apply(FEATURES, stats)
    assert found.dtype == np.float32
    expected = _slow(FEATURES, stats, options)
    np.testing.assert_allclose(found, expected, rtol=2e-7 if variances and reverse else 0)  # 1 / (1 / x) is not x


def test_what_does_not_fit() -> None:
    stats = add_to_stats(None, FEATURES)
    for given, options, message in (
        (stats[:, 1:], Normalising(), r"are \(2, 4\), expected \(2, 5\)"),
        (stats[:1], Normalising(True), "have no squares"),
        (stats + np.inf, Normalising(), "statistics have a NaN or an infinity"),
        (stats * 0.01, Normalising(), "of 0.4 frames"),
        (stats, Normalising(skipped=(4,)), "names column 4, but there are 4"),
        (stats * [1e300, 1, 1, 1, 1], Normalising(), "are not finite any more"),
        (stats * [1e300, 1, 1, 1, 1], Normalising(reverse=True), "are not finite any more"),
        (stats * [[1e30, 1, 1, 1, 1]], Normalising(True), "are not finite any more"),
        (stats * [[1], [1e200]], Normalising(True, reverse=True), "are not finite any more"),
    ):
        with pytest.raises(Nnet3Error, match=message):
            options.apply(FEATURES, given)
    np.testing.assert_array_equal(Normalising().apply(FEATURES, stats[:1]), Normalising().apply(FEATURES, stats))
    for before, features, weights, message in (
        (np.zeros((2, 4)), FEATURES, None, "has 4 columns, those before it have 3"),
        (None, FEATURES, np.ones(39), "39 weights for 40 frames"),
        (None, FEATURES, np.full(40, np.nan), "sums are not finite"),
        (None, np.where(FEATURES > 20, F(np.nan), FEATURES), None, "sums are not finite"),
        (None, F(1e30) * FEATURES, None, "sums are not finite"),
        (None, FEATURES[:0], None, "has no frames"),
    ):
        with pytest.raises(Nnet3Error, match=message):
            add_to_stats(before, features, weights)
