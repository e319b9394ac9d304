"""The arithmetic of ivectors against worked examples, a slow version and exact solutions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from nnet3.options import IvectorOptions
from nnet3.speech.features.ivector_files import IvectorExtractor, from_packed
from nnet3.speech.features.ivector_stats import (
    IvectorStatistics,
    LikelyGaussians,
    as_output,
    best_gaussians,
    conjugate_gradients,
    posteriors,
)
from tests.asr import slow_ivectors
from tests.asr.small_model import random_ivector_model
from tests.effort import draws
from tests.seeds import RANDOM


def test_posteriors_of_the_worked_example() -> None:
    likelihoods = np.array([[-3.0, -1.0, -5.5, -2.0, -4.5]] * 3, np.float32)
    options = IvectorOptions(num_gselect=3, min_post=0.05, posterior_scale=0.1)
    candidates = best_gaussians(likelihoods, 3)
    assert candidates.gaussians.tolist() == [[1, 3, 0]] * 3
    expected = [[0.0665241, 0.0244728, 0.0090031], [0.0219318, 0.0080682, 0], [-0.0665241, -0.0244728, -0.0090031]]
    got = posteriors(candidates, np.array([1, 0.3, -1]), options)
    np.testing.assert_allclose(got, expected, atol=5e-8)


@settings(max_examples=draws(30))
@given(st.integers(1, 8), st.sampled_from([0.0, 0.01, 0.025, 0.1, 0.3]), st.floats(1e-4, 2), st.booleans())
def test_posteriors_are_those_of_each_frame(gselect: int, min_post: float, weight: float, negative: bool) -> None:
    options = IvectorOptions(num_gselect=gselect, min_post=min_post)
    likelihoods = (2 * RANDOM.normal(size=(4, 8))).astype(np.float32)
    weights = np.array([1.0, -weight if negative else weight, 0.001, weight])
    candidates = best_gaussians(likelihoods, gselect)
    got = posteriors(candidates, weights, options)
    for frame, weight_of_frame in enumerate(weights):
        expected = slow_ivectors.posteriors(likelihoods[frame].tolist(), float(weight_of_frame), options)
        pairs = zip(candidates.gaussians[frame].tolist(), got[frame], strict=True)
        mine = {gaussian: value for gaussian, value in pairs if value != 0}
        assert mine == pytest.approx(expected, rel=1e-5)


def _tiny() -> IvectorStatistics:
    """One Gaussian, one dimension: B = 0.5 and U = 0.25."""
    return IvectorStatistics(IvectorExtractor(np.full((1, 1, 1), 0.5), np.ones((1, 1)), 10.0), max_count=2.0)


def test_statistics_of_the_worked_example() -> None:
    statistics, row, none = _tiny(), np.full((1, 1), 4, np.float32), np.zeros((1, 1), np.int64)
    assert as_output(statistics.estimate(statistics.prior_mean()), 10.0).tolist() == [0.0]
    statistics.add(row, none, np.full((1, 1), 1.5))
    assert (statistics.count, statistics.linear[0], statistics.quadratic[0]) == (1.5, 13, 1.375)
    statistics.add(row, none, np.full((1, 1), 1.5))
    assert (statistics.count, statistics.linear[0], statistics.quadratic[0]) == (3, 21, 2.25)
    estimate = statistics.estimate(statistics.prior_mean())
    np.testing.assert_allclose(estimate, [9.33333], atol=1e-5)
    np.testing.assert_allclose(as_output(estimate, 10.0), [-0.66667], atol=1e-5)
    statistics.scale(0.5)
    assert (statistics.count, statistics.linear[0], statistics.quadratic[0]) == (1.5, 13, 1.375)


def test_frames_that_are_taken_away_leave_nothing() -> None:
    model = random_ivector_model(RANDOM)
    statistics = IvectorStatistics(model.extractor, max_count=1.0)
    before = statistics.copy()
    rows = RANDOM.normal(size=(30, model.extractor.dim)).astype(np.float32)
    candidates = best_gaussians(model.gmm.log_likelihoods(rows), 5)
    added = posteriors(candidates, np.ones(30), model.options)
    statistics.add(rows, candidates.gaussians, added)
    statistics.add(rows, candidates.gaussians, -added)
    np.testing.assert_allclose(statistics.linear, before.linear, atol=1e-9)
    np.testing.assert_allclose(statistics.quadratic, before.quadratic, atol=1e-9)
    assert statistics.count == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("max_count", [0.0, 0.5, 2.0, 50.0])
@pytest.mark.parametrize("factor", [0.0, 0.25, 1.0])
def test_scaled_statistics_are_those_of_scaled_frames(max_count: float, factor: float) -> None:
    model = random_ivector_model(RANDOM)
    rows = RANDOM.normal(size=(30, model.extractor.dim)).astype(np.float32)
    candidates = best_gaussians(model.gmm.log_likelihoods(rows), 5)
    added = posteriors(candidates, np.ones(30), model.options)
    scaled, direct = (IvectorStatistics(model.extractor, max_count) for _ in range(2))
    scaled.add(rows, candidates.gaussians, added)
    scaled.scale(factor)
    direct.add(rows, candidates.gaussians, factor * added)
    np.testing.assert_allclose(scaled.linear, direct.linear, rtol=1e-9)
    np.testing.assert_allclose(scaled.quadratic, direct.quadratic, rtol=1e-9, atol=1e-9)
    assert scaled.count == pytest.approx(direct.count)


@settings(max_examples=draws(30))
@given(st.integers(1, 40), st.floats(1, 1e5))
def test_conjugate_gradients_come_near_the_solution(size: int, condition: float) -> None:
    vectors = np.linalg.qr(RANDOM.normal(size=(size, size)))[0]
    matrix = vectors * np.geomspace(1, condition, size) @ vectors.T
    solution = RANDOM.normal(size=size)
    target, start = matrix @ solution, solution + 0.1 * RANDOM.normal(size=size)
    found = conjugate_gradients(matrix, target, start)
    assert np.isfinite(found).all()

    def energy(x: np.ndarray) -> float:  # this is what conjugate gradients bring down in every step
        return float((x - solution) @ matrix @ (x - solution))

    assert energy(found) <= energy(start) * (1 + 1e-9)
    if size <= 10 and condition < 1000:
        np.testing.assert_allclose(found, solution, atol=1e-5)


def test_a_start_that_is_the_solution_stays() -> None:
    matrix, solution = np.diag([1.0, 2.0]), np.array([3.0, 4.0])
    assert conjugate_gradients(matrix, matrix @ solution, solution).tolist() == [3, 4]


def test_steps_that_lead_away_are_replaced_by_a_solution() -> None:
    matrix = np.array([[1.0, 0], [0, -1.0]])  # not positive definite
    found = conjugate_gradients(matrix, np.array([1.0, 1.001]), np.zeros(2))
    np.testing.assert_allclose(found, [1, -1.001])


def test_an_estimate_of_statistics_is_their_minimum() -> None:
    model = random_ivector_model(RANDOM)
    statistics = IvectorStatistics(model.extractor)
    rows = RANDOM.normal(size=(50, model.extractor.dim)).astype(np.float32)
    statistics.add(rows, np.tile(np.arange(8), (50, 1)), RANDOM.uniform(0, 0.1, (50, 8)))
    expected = np.linalg.solve(from_packed(statistics.quadratic, 4), statistics.linear)
    np.testing.assert_allclose(statistics.estimate(np.zeros(4)), expected, rtol=1e-4, atol=1e-4)


def test_candidates_are_at_most_the_gaussians_that_there_are() -> None:
    candidates = best_gaussians(np.array([[1, 3, 2]], np.float32), 5)
    assert candidates == LikelyGaussians(candidates.gaussians, candidates.log_likelihoods)
    assert candidates.gaussians.tolist() == [[1, 2, 0]]
