"""Samples from columns to rows and back."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from nnet3 import cn
from nnet3.cn.samples import Layout
from nnet3.errors import ShapeError

A, B = np.arange(6.0).reshape(2, 3), 10 + np.arange(4.0).reshape(2, 2)


def test_independent_samples() -> None:
    layout = Layout.of(A, "x")
    assert layout.indexes.tolist() == [[0, 0, 0], [1, 0, 0], [2, 0, 0]]
    rows = layout.rows_of(A, 2, "x", torch.float32)
    assert rows.tolist() == A.T.tolist()
    np.testing.assert_array_equal(layout.value_of(rows), A)


def test_sequences_frame_by_frame() -> None:
    batch = cn.sequences([A, B])
    layout = Layout.of(batch, "x")
    assert layout.indexes.tolist() == [[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0], [0, 2, 0]]
    rows = layout.rows_of(batch, 2, "x", torch.float64)
    assert rows[:, 0].tolist() == [0, 10, 1, 11, 2]
    for given, back in zip((A, B), layout.value_of(rows), strict=True):
        np.testing.assert_array_equal(given, back)


def test_longer_sequences_have_lower_numbers() -> None:
    layout = Layout.of(cn.sequences([B, A, B]), "x")
    assert layout.numbers == (1, 0, 2)
    assert layout.sorted == Layout((3, 2, 2))
    assert layout.sorted.indexes.tolist() == layout.indexes.tolist()
    rows = layout.rows_of(cn.sequences([B, A, B + 50]), 2, "x", torch.float64)
    assert rows[:, 0].tolist() == [0, 10, 60, 1, 11, 61, 2]
    np.testing.assert_array_equal(layout.value_of(rows)[2], B + 50)


def test_states_lie_before_or_after() -> None:
    layout = Layout.of(cn.sequences([A, B]), "x")
    assert layout.of_states(2).indexes[:, :2].tolist() == [[0, -2], [1, -2], [0, -1], [1, -1]]
    assert layout.of_states(-1).indexes[:, :2].tolist() == [[1, 2], [0, 3]]


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (A, "expected sequences"),
        (cn.sequences([A, A]), "expected 2 sequences of 3, 2 frames as for the other inputs, got 2 sequences of 3, 3"),
        (cn.sequences([A[:1], B[:1]]), "expected 2 rows, got 1"),
    ],
)
def test_values_that_do_not_fit(value, says) -> None:
    with pytest.raises(ShapeError, match=says):
        Layout.of(cn.sequences([A, B]), "x").rows_of(value, 2, "input 'x'", torch.float32)


def test_what_is_no_matrix() -> None:
    for wrong in ([[A, A[0]]], [["a"]], []):
        with pytest.raises((ShapeError, ValueError)):
            cn.sequences(*wrong) if wrong else cn.sequences([])
