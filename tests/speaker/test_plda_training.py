"""Training of PLDA: the likelihood by its definition rises, an iteration by dense matrices, adaptation axis by axis."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
import pytest

from nnet3.errors import ArgumentError, Nnet3Error
from nnet3.options import PldaAdaptationOptions
from nnet3.speech.speaker.plda import Plda
from nnet3.speech.speaker.plda_training import adapted_plda, estimate_plda, plda_iterations, plda_log_likelihood
from nnet3.speech.speaker.speaker_stats import SpeakerStats
from tests.seeds import RANDOM
from tests.speaker.slow_plda import random_speakers, slow_log_likelihood

DIM = 3
SPEAKERS = random_speakers(RANDOM, DIM, 40)
STATS = SpeakerStats.of_speakers(SPEAKERS)


def test_each_iteration_makes_the_vectors_likelier() -> None:
    models = list(islice(plda_iterations(STATS), 12))
    found = [plda_log_likelihood(STATS, model) for model in models]
    assert (np.diff(found) > 0).all()
    for model, ours in zip(models[::4], found[::4], strict=True):
        given = (model.mean, *model.covariances())
        total = sum(slow_log_likelihood(vectors, *given) for vectors in SPEAKERS)
        assert ours == pytest.approx(total / STATS.total, rel=1e-9)


def _slow_iteration(model: Plda) -> tuple[np.ndarray, np.ndarray]:
    """One step of expectation and maximisation, speaker by speaker, with dense matrices."""
    within, between = model.covariances()
    new_within, new_between = STATS.scatter.copy(), np.zeros((DIM, DIM))
    for vectors in SPEAKERS:
        count, mean = len(vectors), vectors.mean(axis=0) - model.mean
        variance = np.linalg.inv(np.linalg.inv(between) + count * np.linalg.inv(within))
        point = variance @ (count * np.linalg.inv(within) @ mean)
        new_between += variance + np.outer(point, point)
        new_within += count * (variance + np.outer(mean - point, mean - point))
    return new_within / STATS.total, new_between / len(SPEAKERS)


def test_an_iteration_is_that_of_dense_matrices() -> None:
    before, after = islice(plda_iterations(STATS), 2, 4)
    for ours, slow in zip(after.covariances(), _slow_iteration(before), strict=True):
        np.testing.assert_allclose(ours, slow, atol=1e-9)
    np.testing.assert_allclose(after.mean, np.mean([vectors.mean(axis=0) for vectors in SPEAKERS], axis=0))


def test_ten_iterations_are_taken() -> None:
    tenth = next(islice(plda_iterations(STATS), 10, None))
    np.testing.assert_array_equal(estimate_plda(STATS).psi, tenth.psi)
    np.testing.assert_array_equal(estimate_plda(STATS, 0).transform, np.eye(DIM))


def test_covariances_of_many_speakers_are_found() -> None:
    rng = np.random.default_rng(5)
    within, between = np.diag([1.0, 0.5, 2.0]), np.diag([3.0, 2.0, 0.5])
    speakers = [
        rng.multivariate_normal(rng.multivariate_normal(np.ones(3), between), within, size=5) for _ in range(2000)
    ]
    model = estimate_plda(SpeakerStats.of_speakers(speakers))
    found, expected = model.covariances(), (within, between)
    assert all(np.abs(ours - theirs).max() < 0.25 for ours, theirs in zip(found, expected, strict=True))


def test_too_few_vectors_are_refused() -> None:
    with pytest.raises(Nnet3Error, match="3 vectors are too few for a PLDA model of 3 dimensions"):
        estimate_plda(SpeakerStats.of_speakers([RANDOM.normal(size=(3, DIM))]))
    with pytest.raises(Nnet3Error, match="no speaker has two vectors"):
        estimate_plda(SpeakerStats.of_speakers(RANDOM.normal(size=(9, 1, DIM))))


@pytest.mark.parametrize("wrong", [None, 3, "x", np.zeros((4, 2))])
def test_arguments_of_other_kinds_are_refused(wrong: Any) -> None:
    with pytest.raises(ArgumentError, match="what a PLDA model is estimated of must be SpeakerStats, got "):
        estimate_plda(wrong)
    stats = SpeakerStats.of_speakers(RANDOM.normal(size=(9, 3, DIM)))
    for iterations in (-1, 2.5):
        with pytest.raises(Nnet3Error, match="iterations must be "):
            estimate_plda(stats, iterations)  # type: ignore[arg-type]
    with pytest.raises(Nnet3Error, match="the PLDA model is of vectors of "):
        adapted_plda(estimate_plda(stats, 1), wrong)


def _slowly_adapted(model: Plda, vectors: np.ndarray, options: PldaAdaptationOptions) -> tuple[np.ndarray, ...]:
    """Covariances after adaptation: axis by axis in the space where the model's total covariance is unit."""
    within, between = model.covariances()
    root = np.linalg.cholesky(within + between)
    moved = vectors.mean(axis=0) - model.mean
    variance = np.cov(vectors.T, bias=True) + options.mean_diff_scale * np.outer(moved, moved)
    sizes, axes = np.linalg.eigh(np.linalg.inv(root) @ variance @ np.linalg.inv(root).T)
    for size, axis in zip(sizes, axes.T, strict=True):
        if size > 1:
            direction = root @ axis
            within = within + (size - 1) * options.within_covar_scale * np.outer(direction, direction)
            between = between + (size - 1) * options.between_covar_scale * np.outer(direction, direction)
    return vectors.mean(axis=0), within, between


@pytest.mark.parametrize("options", [PldaAdaptationOptions(), PldaAdaptationOptions(0.5, 0.75, 0.25)])
def test_adaptation_widens_axes_that_vary_more(options: PldaAdaptationOptions) -> None:
    model = estimate_plda(STATS)
    vectors = RANDOM.normal(1.0, [0.3, 6.0, 2.0], (50, DIM))
    adapted = adapted_plda(model, vectors, options)
    for ours, slow in zip(
        (adapted.mean, *adapted.covariances()), _slowly_adapted(model, vectors, options), strict=True
    ):
        np.testing.assert_allclose(ours, slow, atol=1e-8)
    assert (np.diff(adapted.psi) <= 0).all()


def test_wrong_vectors_are_refused() -> None:
    model, options = estimate_plda(STATS), PldaAdaptationOptions()
    for vectors, why in (
        (np.zeros((2, 4)), "of 3 numbers"),
        (np.zeros((0, 3)), "no vectors"),
        (np.full((1, 3), np.inf), "NaN"),
    ):
        with pytest.raises(Nnet3Error, match=why):
            adapted_plda(model, vectors, options)
