"""PLDA: ratios by their definition, lengths, smoothing, projection, files."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from nnet3.errors import ModelFormatError, Nnet3Error
from nnet3.kaldi_io import Reader, Writer
from nnet3.options import PldaScoringOptions
from nnet3.speech.speaker.plda import Plda, diagonalised
from tests.seeds import RANDOM
from tests.speaker.slow_plda import random_covariance, slow_log_likelihood

DIM = 4
MEAN, WITHIN, BETWEEN = RANDOM.normal(size=DIM), random_covariance(RANDOM, DIM), random_covariance(RANDOM, DIM)
MODEL = Plda.of_covariances(MEAN, WITHIN, BETWEEN)
AS_THEY_ARE = PldaScoringOptions(normalize_length=False)


def test_the_own_space_has_unit_and_diagonal_covariances() -> None:
    transform, psi = diagonalised(WITHIN, BETWEEN)
    np.testing.assert_allclose(transform @ WITHIN @ transform.T, np.eye(DIM), atol=1e-9)
    np.testing.assert_allclose(transform @ BETWEEN @ transform.T, np.diag(psi), atol=1e-9)
    assert (np.diff(psi) <= 0).all()
    for ours, given in zip(MODEL.covariances(), (WITHIN, BETWEEN), strict=True):
        np.testing.assert_allclose(ours, given, atol=1e-9)
    with pytest.raises(Nnet3Error, match="not positive definite"):
        diagonalised(np.zeros((2, 2)), np.eye(2))


@pytest.mark.parametrize("count", [1, 2, 5])
def test_ratios_are_those_of_joint_gaussians(count: int) -> None:
    """log p(test | enrolled) - log p(test), with everything one long vector."""
    enrolled, test = RANDOM.normal(0, 2, (count, DIM)), RANDOM.normal(0, 2, (1, DIM))
    given = (MEAN, WITHIN, BETWEEN)
    together = slow_log_likelihood(np.concatenate([enrolled, test]), *given)
    expected = together - slow_log_likelihood(enrolled, *given) - slow_log_likelihood(test, *given)
    own, _ = MODEL.in_own_space(enrolled.mean(axis=0, keepdims=True), [count], AS_THEY_ARE)
    own_test, _ = MODEL.in_own_space(test, options=AS_THEY_ARE)
    assert MODEL.ratios(own, [count], own_test)[0, 0] == pytest.approx(expected, rel=1e-4, abs=1e-4)


def test_pairs_have_the_ratios_of_the_matrix() -> None:
    enrolled, tests, counts = RANDOM.normal(size=(3, DIM)), RANDOM.normal(size=(5, DIM)), np.array([1, 4, 2])
    whole = MODEL.ratios(enrolled, counts, tests)
    assert whole.shape == (3, 5)
    for row in range(3):
        pairs = MODEL.ratios_of_pairs(np.repeat(enrolled[row : row + 1], 5, axis=0), counts[[row] * 5], tests)
        np.testing.assert_allclose(pairs, whole[row], atol=1e-12)


def test_lengths_are_those_that_the_model_expects() -> None:
    vectors, counts = RANDOM.normal(0, 3, (6, DIM)), np.array([1, 2, 3, 1, 5, 9])
    plain, factors = MODEL.in_own_space(vectors, counts, AS_THEY_ARE)
    np.testing.assert_allclose(plain, (vectors - MEAN) @ MODEL.transform.T, rtol=1e-4, atol=1e-5)
    own, same = MODEL.in_own_space(vectors, counts)
    np.testing.assert_array_equal(factors, same)
    np.testing.assert_allclose(own, plain * factors[:, np.newaxis], rtol=1e-5)
    for row, count in zip(own, counts, strict=True):
        covariance = np.diag(MODEL.psi + 1 / count)
        assert row @ np.linalg.inv(covariance) @ row == pytest.approx(DIM, rel=1e-5)
    simple, _ = MODEL.in_own_space(vectors, counts, PldaScoringOptions(simple_length_normalization=True))
    np.testing.assert_allclose(np.linalg.norm(simple, axis=1), np.sqrt(DIM), rtol=1e-6)
    assert not MODEL.in_own_space(MEAN[np.newaxis])[0].any()


def test_smoothing_and_projection_change_the_covariances() -> None:
    for ours, expected in zip(MODEL.smoothed(0.3).covariances(), (WITHIN + 0.3 * BETWEEN, BETWEEN), strict=True):
        np.testing.assert_allclose(ours, expected, atol=1e-9)
    matrix = RANDOM.normal(size=(2, DIM))
    projected = MODEL.projected(matrix)
    np.testing.assert_allclose(projected.mean, matrix @ MEAN)
    for ours, given in zip(projected.covariances(), (WITHIN, BETWEEN), strict=True):
        np.testing.assert_allclose(ours, matrix @ given @ matrix.T, atol=1e-9)


def test_files_have_kaldis_bytes() -> None:
    model = Plda(np.array([1.5, -2.0]), np.array([[1.0, 0.25], [0.0, 3.0]]), np.array([4.0, 0.5]))
    writer = Writer(binary=True)
    model.write_to(writer)
    two = b"\4" + struct.pack("<i", 2)
    expected = b"<Plda> DV " + two + struct.pack("<2d", 1.5, -2) + b"DM " + two + two
    expected += struct.pack("<4d", 1, 0.25, 0, 3) + b"DV " + two + struct.pack("<2d", 4, 0.5) + b"</Plda> "
    assert writer.getvalue() == expected
    text = Writer(binary=False)
    model.write_to(text)
    assert text.getvalue() == b"<Plda>  [ 1.5 -2 ]\n [\n  1 0.25 \n  0 3 ]\n [ 4 0.5 ]\n</Plda> "
    for contents in (b"\0B" + expected, text.getvalue()):
        read = Reader(contents, "plda").whole(Plda.read)
        for part in ("mean", "transform", "psi"):
            np.testing.assert_array_equal(getattr(read, part), getattr(model, part))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("<Plda> [ 1 2 ]\n [ 1 0\n 0 1 ]\n [ 1 ]\n</Plda> ", "1 variances are no PLDA model"),
        ("<Plda> [ 1 2 ]\n [ 1 0 1\n 0 1 1 ]\n [ 1 1 ]\n</Plda> ", "are no PLDA model"),
        ("<Plda> [ ]\n [ ]\n [ ]\n</Plda> ", "are no PLDA model"),
        ("<Plda> [ 1 ]\n [ 1 ]\n [ -1 ]\n</Plda> ", "a variance below 0"),
        ("<Plda> [ nan ]\n [ 1 ]\n [ 1 ]\n</Plda> ", "a NaN"),
        ("<Plda> [ 1 ]\n [ 1 ]\n", "expected"),
        ("<Pldas> [ 1 ]\n", "expected"),
    ],
)
def test_damaged_models_are_refused(text: str, why: str) -> None:
    with pytest.raises(ModelFormatError, match=why):
        Reader(text.encode(), "plda").whole(Plda.read)


def test_covariances_that_are_not_finite_are_refused() -> None:
    with pytest.raises(Nnet3Error, match="the covariance within speakers is not positive definite"):
        diagonalised(np.eye(8), np.full((8, 8), np.nan))


def test_wrong_vectors_are_refused() -> None:
    with pytest.raises(Nnet3Error, match="vectors of 4 numbers, got an array"):
        MODEL.in_own_space(np.zeros((2, 3)))
    with pytest.raises(Nnet3Error, match="a NaN"):
        MODEL.in_own_space(np.array([[0, 1, np.nan, 2.0]]))
    own = np.zeros((2, 4))
    for vectors in (None, "x", np.zeros(4), np.zeros((2, 3)), np.full((2, 4), np.nan), [[1, 2], [3]]):
        for first, second in ((vectors, own), (own, vectors)):
            with pytest.raises(Nnet3Error):
                MODEL.ratios(first, [1], second)  # type: ignore[arg-type]
    for counts in (None, 3, [], [1, 2, 3], [0], [np.nan], ["1"]):
        with pytest.raises(Nnet3Error, match="counts "):
            MODEL.ratios(own, counts, own)  # type: ignore[arg-type]
        with pytest.raises(Nnet3Error, match="counts "):
            MODEL.in_own_space(own, counts)  # type: ignore[arg-type]
    for factor in (None, -1.0, np.nan):
        with pytest.raises(Nnet3Error, match="the factor of smoothing must be "):
            MODEL.smoothed(factor)  # type: ignore[arg-type]
    with pytest.raises(ModelFormatError, match="no inverse"):
        Plda(np.zeros(2), np.zeros((2, 2)), np.ones(2)).covariances()
