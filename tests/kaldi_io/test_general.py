"""Full, sparse and compressed matrices alike."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from nnet3.base.kaldi_io.general import append_rows, compressed, dense, rows_with_padding, scaled, take_rows
from nnet3.errors import ArgumentError
from nnet3.kaldi_io import CompressedMatrix, CompressionMethod, GeneralMatrix, SparseMatrix, compress

FULL = np.array([[1, 0, 2.5], [0, 0, 0], [0, -3, 0], [4, 5, 6]] * 3, np.float32)
SPARSE = SparseMatrix(
    12,
    3,
    np.concatenate([[0], np.cumsum((FULL != 0).sum(axis=1))]),
    np.nonzero(FULL)[1].astype(np.int32),
    FULL[FULL != 0],
)
KINDS: dict[str, GeneralMatrix] = {
    "full": FULL,
    "sparse": SPARSE,
    "CM": compress(FULL),
    "CM2": compress(FULL, CompressionMethod.TWO_BYTE_AUTO),
    "CM3": compress(FULL, CompressionMethod.ONE_BYTE_AUTO),
}


@pytest.mark.parametrize("kind", KINDS)
@given(rows=st.lists(st.integers(0, 11), max_size=20))
def test_rows_are_taken_from_all_kinds(kind: str, rows: list[int]) -> None:
    matrix = KINDS[kind]
    taken = take_rows(matrix, np.array(rows, int))
    assert type(taken) is type(matrix)
    few = kind == "CM" and len(rows) < 8  # re-encoded
    np.testing.assert_allclose(dense(taken), dense(matrix)[rows], atol=2e-4 if few else 0)


def test_codes_are_kept() -> None:
    matrix = KINDS["CM"]
    assert isinstance(matrix, CompressedMatrix)
    eight, seven = (take_rows(matrix, np.arange(count)) for count in (8, 7))
    assert isinstance(eight, CompressedMatrix)
    assert isinstance(seven, CompressedMatrix)
    np.testing.assert_array_equal(eight.codes, matrix.codes[:8])
    assert (eight.tag, seven.tag) == ("CM", "CM2")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("first", "count"), [(-2, 20), (0, 12), (10, 9), (-9, 10)])
def test_padding_repeats_the_ends(kind: str, first: int, count: int) -> None:
    matrix = KINDS[kind]
    expected = [dense(matrix)[min(max(row, 0), 11)] for row in range(first, first + count)]
    np.testing.assert_array_equal(dense(rows_with_padding(matrix, first, count)), expected)


def test_nothing_to_repeat() -> None:
    with pytest.raises(ArgumentError, match="without rows"):
        rows_with_padding(np.zeros((0, 0), np.float32), 0, 1)


@given(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=4))
def test_appended_rows_are_sparse_if_all_are(kinds: list[str]) -> None:
    matrices = [KINDS[kind] for kind in kinds]
    joined = append_rows(matrices)
    assert isinstance(joined, SparseMatrix) == (set(kinds) == {"sparse"})
    np.testing.assert_array_equal(dense(joined), np.concatenate([dense(matrix) for matrix in matrices]))


def test_appending_matrices_of_different_widths() -> None:
    with pytest.raises(ArgumentError, match="matrices of 2 and 3 columns"):
        append_rows([FULL, FULL[:, :2]])
    assert append_rows([np.zeros((0, 0), np.float32), FULL[:, :2]]).shape == (12, 2)
    assert append_rows([]).shape == (0, 0)


@pytest.mark.parametrize("kind", KINDS)
def test_scaling_keeps_the_kind(kind: str) -> None:
    matrix = KINDS[kind]
    result = scaled(matrix, -0.5)
    assert type(result) is type(matrix)
    np.testing.assert_allclose(dense(result), -0.5 * dense(matrix), atol=1e-6)


def test_a_scale_of_0_leaves_no_negative_zeros() -> None:
    assert not np.signbit(scaled(np.float32([[-1, 2]]), 0.0)).any()


def test_compression_of_full_matrices_alone() -> None:
    assert isinstance(compressed(FULL), CompressedMatrix)
    for kind in ("sparse", "CM3"):
        assert compressed(KINDS[kind]) is KINDS[kind]
    assert isinstance(compressed(np.zeros((0, 0), np.float32)), np.ndarray)
