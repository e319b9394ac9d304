"""Rows of sequences in examples: which are taken, and how they are merged. Files: tests of chain and discriminative."""

from __future__ import annotations

import numpy as np
import pytest

from nnet3.errors import ModelFormatError
from nnet3.training.examples.chunk_ios import indexes
from nnet3.training.examples.sequence_target import check_rows, merged_rows

NONE = np.zeros(0, np.float32)


def test_merged_rows_are_frame_by_frame() -> None:
    rows, weights = merged_rows("output", [indexes(0, 3, 2)] * 2, [np.array([0, 1, 2]), np.array([3, 4, 5])])
    assert rows.tolist() == [[0, 0, 0], [1, 0, 0], [0, 2, 0], [1, 2, 0], [0, 4, 0], [1, 4, 0]]
    assert weights.tolist() == [0, 3, 1, 4, 2, 5]
    check_rows("output", rows, 2, 3, weights)
    assert not len(merged_rows("output", [indexes(0, 3)] * 2, [NONE, NONE])[1])


def test_rows_that_do_not_fit_together() -> None:
    with pytest.raises(ModelFormatError, match="other indexes in some"):
        merged_rows("output", [indexes(0, 3), indexes(1, 3)], [NONE, NONE])
    with pytest.raises(ModelFormatError, match="no deriv-weights of 'output'"):
        merged_rows("output", [indexes(0, 3)] * 2, [np.ones(3), NONE])


@pytest.mark.parametrize(
    ("rows", "weights", "message"),
    [
        (indexes(0, 4), NONE, "4 indexes, its supervision 1 sequences of 3"),
        (indexes(0, 3)[[0, 2, 1]], NONE, "equal distances"),
        (indexes(0, 3)[::-1], NONE, "equal distances"),
        (indexes(0, 3) + np.array([1, 0, 0]), NONE, "sequences 0 to 0"),
        (indexes(0, 3), np.ones(2), "3 indexes and 2 deriv-weights"),
        (indexes(0, 3), np.array([1, -1, 0]), "finite and >= 0"),
        (indexes(0, 3), np.array([1, np.nan, 0]), "finite and >= 0"),
    ],
)
def test_wrong_rows_are_refused(rows: np.ndarray, weights: np.ndarray, message: str) -> None:
    with pytest.raises(ModelFormatError, match=message):
        check_rows("output", rows, 1, 3, weights)


def test_one_frame_is_no_sequence() -> None:
    with pytest.raises(ModelFormatError, match="at least two frames"):
        check_rows("output", indexes(0, 1), 1, 1, NONE)
