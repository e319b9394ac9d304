"""Files of an extractor: read in binary and text, refused where they are damaged."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from nnet3.errors import ModelFormatError
from nnet3.speech.features.ivector_files import (
    DiagonalGmm,
    IvectorExtractor,
    from_packed,
    load_cmvn_stats,
    load_diagonal_gmm,
    load_ivector_extractor,
)
from tests.asr import slow_ivectors
from tests.asr.small_model import random_ivector_model, write_extractor, write_gmm, write_matrix
from tests.seeds import RANDOM

MODEL = random_ivector_model(np.random.default_rng(0))


@pytest.mark.parametrize("binary", [True, False])
def test_a_background_model_is_read(tmp_path: Path, binary: bool) -> None:
    write_gmm(MODEL.gmm, tmp_path / "final.dubm", binary)
    gmm = load_diagonal_gmm(tmp_path / "final.dubm")
    for name in ("weights", "means_inv_vars", "inv_vars"):
        assert np.array_equal(getattr(gmm, name), getattr(MODEL.gmm, name))


def test_old_names_and_missing_constants_are_read(tmp_path: Path) -> None:
    path = tmp_path / "final.dubm"
    path.write_text("<DiagGMMBegin>\n<WEIGHTS> [ 1 ]\n<MEANS_INVVARS> [ 1 2 ]\n<INV_VARS> [ 1 2 ]\n<DiagGMMEnd>\n")
    assert load_diagonal_gmm(path).dim == 2


@pytest.mark.parametrize("binary", [True, False])
def test_an_extractor_is_read(tmp_path: Path, binary: bool) -> None:
    write_extractor(MODEL.extractor, tmp_path / "final.ie", binary)
    extractor = load_ivector_extractor(tmp_path / "final.ie")
    assert np.array_equal(extractor.projections, MODEL.extractor.projections)
    assert np.array_equal(extractor.precisions, MODEL.extractor.precisions)
    assert extractor.offset == MODEL.extractor.offset


def test_products_of_matrices_are_those_of_each_gaussian() -> None:
    extractor = MODEL.extractor
    for number in range(extractor.num_gaussians):
        precision = np.zeros((extractor.dim, extractor.dim))
        values = iter(extractor.precisions[number])
        for row in range(extractor.dim):
            for column in range(row + 1):
                precision[row, column] = precision[column, row] = next(values)
        weighted = precision @ extractor.projections[number]
        np.testing.assert_allclose(extractor.weighted[number], weighted)
        quadratic = from_packed(extractor.quadratic[number], extractor.ivector_dim)
        np.testing.assert_allclose(quadratic, extractor.projections[number].T @ weighted)


def test_log_likelihoods_are_those_of_means_and_variances() -> None:
    rows = RANDOM.normal(size=(5, MODEL.gmm.dim)).astype(np.float32)
    expected = [slow_ivectors.log_likelihoods(MODEL.gmm, row) for row in rows]
    np.testing.assert_allclose(MODEL.gmm.log_likelihoods(rows), expected, rtol=1e-4, atol=1e-4)


def test_a_gaussian_without_weight_is_never_taken() -> None:
    gmm = DiagonalGmm(np.array([0, 1], np.float32), np.ones((2, 3), np.float32), np.ones((2, 3), np.float32))
    assert gmm.constants[0] == -np.inf
    assert np.isfinite(gmm.constants[1])


def test_statistics_are_read_as_text(tmp_path: Path) -> None:
    (tmp_path / "stats").write_text(" [\n  2 4 2\n  3 9 0 ]\n")
    assert load_cmvn_stats(tmp_path / "stats").tolist() == [[2, 4, 2], [3, 9, 0]]


@pytest.mark.parametrize(
    ("stats", "message"),
    [
        (np.ones((3, 4)), r"must be \(2, dim \+ 1\), got \(3, 4\)"),
        (np.ones((2, 1)), r"got \(2, 1\)"),
        (np.zeros((2, 4)), "must be finite and have a count, got 0"),
        (np.full((2, 4), np.nan), "must be finite"),
        (np.array([[1e300, 1, 1], [1, 1, 0]]), "means of features must have finite numbers up to"),
        (np.array([[1, 1, 1], [1e300, 1, 0]]), "variances of features must have finite numbers up to"),
    ],
)
def test_other_matrices_are_no_statistics(tmp_path: Path, stats: np.ndarray, message: str) -> None:
    write_matrix(stats, tmp_path / "stats")
    with pytest.raises(ModelFormatError, match=message):
        load_cmvn_stats(tmp_path / "stats")


def _gmm(**changes: np.ndarray) -> DiagonalGmm:
    parts = {"weights": MODEL.gmm.weights, "means_inv_vars": MODEL.gmm.means_inv_vars, "inv_vars": MODEL.gmm.inv_vars}
    return DiagonalGmm(**parts | changes)


@pytest.mark.parametrize(
    ("gmm", "message"),
    [
        (_gmm(weights=MODEL.gmm.weights[1:]), "are not of one number of Gaussians of one dimension"),
        (_gmm(inv_vars=MODEL.gmm.inv_vars[:, 1:]), "are not of one number"),
        (_gmm(inv_vars=-MODEL.gmm.inv_vars), "Gaussian 0 is none"),
        (
            _gmm(weights=np.where(np.arange(8) == 3, np.nan, MODEL.gmm.weights)),
            "weights of Gaussians must have finite",
        ),
        (_gmm(means_inv_vars=1e30 * MODEL.gmm.means_inv_vars), "the means of Gaussians must have finite numbers up to"),
        (_gmm(inv_vars=1e30 * MODEL.gmm.inv_vars), "the inverse variances of Gaussians must have finite numbers"),
        (_gmm(inv_vars=np.float32(1e-30) * MODEL.gmm.inv_vars), "Gaussian 0 is none"),
    ],
)
def test_what_is_no_mixture_is_refused(tmp_path: Path, gmm: DiagonalGmm, message: str) -> None:
    write_gmm(gmm, tmp_path / "final.dubm")
    with pytest.raises(ModelFormatError, match=message):
        load_diagonal_gmm(tmp_path / "final.dubm")


def test_weights_that_depend_on_the_ivector_are_refused(tmp_path: Path) -> None:
    (tmp_path / "final.ie").write_text("<IvectorExtractor> <w> [\n 1 2 ]\n<w_vec> [ 1 ]\n")
    with pytest.raises(ModelFormatError, match="the weights of this extractor depend on the ivector"):
        load_ivector_extractor(tmp_path / "final.ie")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda e: IvectorExtractor(e.projections, e.precisions[:, 1:4], e.offset),
            "inverse covariance 0 is not 5 x 5",
        ),
        (lambda e: IvectorExtractor(e.projections, e.precisions, float("inf")), "the offset must have finite numbers"),
        (lambda e: IvectorExtractor(np.nan * e.projections, e.precisions, 1.0), "the projections must have finite"),
        (lambda e: IvectorExtractor(1e30 * e.projections, e.precisions, 1.0), "the projections must have finite"),
        (lambda e: IvectorExtractor(e.projections, 0 * e.precisions, 1.0), "is not positive definite"),
        (lambda e: IvectorExtractor(e.projections, -e.precisions, 1.0), "is not positive definite"),
    ],
)
def test_an_extractor_that_does_not_fit_is_refused(
    tmp_path: Path, change: Callable[[IvectorExtractor], IvectorExtractor], message: str
) -> None:
    write_extractor(change(MODEL.extractor), tmp_path / "final.ie")
    with pytest.raises(ModelFormatError, match=message):
        load_ivector_extractor(tmp_path / "final.ie")


@pytest.mark.parametrize("kind", ["final.dubm", "final.ie"])
@pytest.mark.parametrize("binary", [True, False])
def test_damaged_files_are_refused_or_read(tmp_path: Path, kind: str, binary: bool) -> None:
    path = tmp_path / kind
    if kind == "final.ie":
        write_extractor(MODEL.extractor, path, binary)
    else:
        write_gmm(MODEL.gmm, path, binary)
    load = load_ivector_extractor if kind == "final.ie" else load_diagonal_gmm
    whole = path.read_bytes()
    refused = 0
    for _ in range(100):
        damaged = bytearray(whole)
        for at in RANDOM.integers(0, len(whole), 3):
            damaged[at] = RANDOM.choice([0, 4, 8, 32, 48, 60, 91, 93, 127, 255])
        path.write_bytes(damaged[: RANDOM.integers(1, len(whole))] if RANDOM.random() < 0.3 else damaged)
        try:
            load(path)
        except ModelFormatError:
            refused += 1
    assert refused > 20


def test_a_claimed_number_of_gaussians_takes_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "final.ie"
    write_extractor(MODEL.extractor, path)
    contents = path.read_bytes()
    at = contents.index(b"<M> ") + len(b"<M> ") + 1
    path.write_bytes(contents[:at] + struct.pack("<i", 2**31 - 1) + contents[at + 4 :])
    tracemalloc.start()
    try:
        with pytest.raises(ModelFormatError, match=r"take more than 4 GiB|only .* bytes are left"):
            load_ivector_extractor(path)
        assert tracemalloc.get_traced_memory()[1] < 200_000
    finally:
        tracemalloc.stop()
