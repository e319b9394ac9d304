"""Statistics of speakers; what LDA makes unit and diagonal; affine transforms; lengths."""

from __future__ import annotations

import numpy as np
import pytest

from nnet3.errors import Nnet3Error
from nnet3.options import SpeakerLdaOptions
from nnet3.speech.speaker.speaker_stats import (
    SpeakerStats,
    covariance_of,
    discriminant_transform,
    principal_axes,
    transformed,
    with_length,
)
from tests.seeds import RANDOM
from tests.speaker.slow_plda import random_speakers

DIM = 4


def _centred() -> list[np.ndarray]:
    speakers = random_speakers(RANDOM, DIM, 30)
    mean = np.concatenate(speakers).mean(axis=0)
    return [vectors - mean for vectors in speakers]


def test_covariances_are_those_of_the_vectors() -> None:
    speakers = _centred()
    stats = SpeakerStats.of_speakers(speakers)
    whole = np.concatenate(speakers)
    within, between = stats.covariances()
    np.testing.assert_allclose(within + between, whole.T @ whole / len(whole), atol=1e-9)
    offsets = np.concatenate([vectors - vectors.mean(axis=0) for vectors in speakers])
    np.testing.assert_allclose(within, offsets.T @ offsets / len(whole), atol=1e-9)


@pytest.mark.parametrize("factor", [0.0, 0.3, 1.0])
def test_lda_makes_covariances_unit_and_diagonal(factor: float) -> None:
    stats = SpeakerStats.of_speakers(_centred())
    within, between = stats.covariances()
    transform = discriminant_transform(stats, SpeakerLdaOptions(dim=3, total_covariance_factor=factor))
    assert (transform.shape, transform.dtype) == ((3, DIM), np.float32)
    mixed = factor * (within + between) + (1 - factor) * within
    np.testing.assert_allclose(transform @ mixed @ transform.T, np.eye(3), atol=1e-4)
    projected = transform @ between @ transform.T
    np.testing.assert_allclose(projected, np.diag(np.diag(projected)), atol=1e-4 * projected.max())
    assert (np.diff(np.diag(projected)) <= 0).all()


def test_small_variances_are_floored() -> None:
    speakers = [vectors * [1, 1, 1, 1e-4] for vectors in _centred()]
    stats = SpeakerStats.of_speakers(speakers)
    within, _ = stats.covariances()
    transform = discriminant_transform(stats, SpeakerLdaOptions(dim=DIM, covariance_floor=1e-2))
    values, axes = principal_axes(within)
    floored = axes.T @ np.diag(np.maximum(values, 1e-2 * values[0])) @ axes
    np.testing.assert_allclose(transform @ floored @ transform.T, np.eye(DIM), atol=1e-4)
    flat = SpeakerStats.of_speakers([vectors * [1, 1, 1, 0] for vectors in _centred()])
    with pytest.raises(Nnet3Error, match="singular"):
        discriminant_transform(flat, SpeakerLdaOptions(dim=2, covariance_floor=0.0))


@pytest.mark.parametrize(
    ("speakers", "dim", "why"),
    [
        (RANDOM.normal(size=(3, 2, 2)), 3, "--dim=3 is more than the 2"),
        (RANDOM.normal(size=(1, 2, 3)), 1, "2 vectors are too few for their 3"),
        (RANDOM.normal(size=(5, 1, 3)), 1, "no speaker has two vectors"),
    ],
)
def test_what_lda_cannot_do(speakers: np.ndarray, dim: int, why: str) -> None:
    with pytest.raises(Nnet3Error, match=why):
        discriminant_transform(SpeakerStats.of_speakers(speakers), SpeakerLdaOptions(dim=dim))


def test_as_many_vectors_as_dimensions_will_do() -> None:
    stats = SpeakerStats.of_speakers(RANDOM.normal(size=(2, 2, 4)))
    assert discriminant_transform(stats, SpeakerLdaOptions(dim=1)).shape == (1, 4)


def test_wrong_vectors_are_refused() -> None:
    with pytest.raises(Nnet3Error, match="there are no vectors"):
        SpeakerStats.of_speakers([])
    with pytest.raises(Nnet3Error, match="vectors of 2 and of 3 numbers"):
        SpeakerStats.of_speakers([np.zeros((1, 2)), np.zeros((1, 3))])
    with pytest.raises(Nnet3Error, match="a NaN"):
        SpeakerStats.of_speakers([np.full((1, 2), np.nan)])
    for shape in ((3,), (0, 3)):
        with pytest.raises(Nnet3Error, match=r"must be an array \(vectors, dim\), got an array \("):
            SpeakerStats.of_speakers([np.zeros(shape)])
    for wrong in ("x", None, [[1, 2], [3]]):
        with pytest.raises(Nnet3Error, match=r"the vectors of a speaker must be an array .*, got "):
            SpeakerStats.of_speakers([wrong])  # type: ignore[list-item]
    with pytest.raises(Nnet3Error, match="vectors of speakers must be a list of arrays"):
        SpeakerStats.of_speakers(None)  # type: ignore[arg-type]
    with pytest.raises(Nnet3Error, match="the options of a transform must be SpeakerLdaOptions, got 2"):
        discriminant_transform(SpeakerStats.of_speakers(np.ones((2, 2, 4))), 2)  # type: ignore[arg-type]
    with pytest.raises(Nnet3Error, match="what a transform is estimated of must be SpeakerStats"):
        discriminant_transform(np.ones((2, 4)), SpeakerLdaOptions(dim=1))  # type: ignore[arg-type]


def test_transforms_may_have_an_offset() -> None:
    vectors, matrix = RANDOM.normal(size=(5, 3)).astype(np.float32), RANDOM.normal(size=(2, 4)).astype(np.float32)
    np.testing.assert_allclose(transformed(vectors, matrix), vectors @ matrix[:, :3].T + matrix[:, 3], rtol=1e-5)
    np.testing.assert_allclose(transformed(vectors, matrix[:, :3]), vectors @ matrix[:, :3].T, rtol=1e-5)
    with pytest.raises(Nnet3Error, match="takes vectors of 2 or 1 numbers, got 3"):
        transformed(vectors, matrix[:, :2])


def test_lengths() -> None:
    vectors = np.array([[3.0, 4.0, 0, 0], [0, 0, 0, 0]], np.float32)
    np.testing.assert_allclose(with_length(vectors), [[1.2, 1.6, 0, 0], [0, 0, 0, 0]], rtol=1e-6)
    np.testing.assert_allclose(with_length(vectors, scaled=False), [[0.6, 0.8, 0, 0], [0, 0, 0, 0]], rtol=1e-6)


def test_axes_and_covariances() -> None:
    rows = RANDOM.normal(size=(20, 3)) * [1, 5, 2] + 7
    mean, covariance = covariance_of(rows)
    np.testing.assert_allclose(mean, rows.mean(axis=0))
    np.testing.assert_allclose(covariance, np.cov(rows.T, bias=True), atol=1e-9)
    values, axes = principal_axes(covariance)
    assert (np.diff(values) <= 0).all()
    np.testing.assert_allclose(axes @ covariance @ axes.T, np.diag(values), atol=1e-9)
