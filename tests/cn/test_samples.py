"""Samples from columns to rows and back."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from nnet3 import cn
from nnet3.cn.samples import SampleLayout
from nnet3.errors import ShapeError

A, B = np.arange(6.0).reshape(2, 3), 10 + np.arange(4.0).reshape(2, 2)


def test_independent_samples_are_sequences_of_one_frame() -> None:
    layout = SampleLayout.of(A, "x")
    assert layout.indexes.tolist() == [[0, 0, 0], [1, 0, 0], [2, 0, 0]]
    rows = layout.rows_of(A, 2, "x", torch.float32)
    assert rows.tolist() == A.T.tolist()
    np.testing.assert_array_equal(layout.value_of(rows), A)


def test_sequences_frame_by_frame() -> None:
    batch = cn.sequences([A, B])
    layout = SampleLayout.of(batch, "x")
    assert layout.indexes.tolist() == [[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0], [0, 2, 0]]
    rows = layout.rows_of(batch, 2, "x", torch.float64)
    assert rows[:, 0].tolist() == [0, 10, 1, 11, 2]
    for given, back in zip((A, B), layout.value_of(rows), strict=True):
        np.testing.assert_array_equal(given, back)


def test_longer_sequences_have_lower_numbers() -> None:
    layout = SampleLayout.of(cn.sequences([B, A, B]), "x")
    assert layout.numbers == (1, 0, 2)
    assert layout.sorted == SampleLayout((3, 2, 2))
    assert layout.sorted.indexes.tolist() == layout.indexes.tolist()
    rows = layout.rows_of(cn.sequences([B, A, B + 50]), 2, "x", torch.float64)
    assert rows[:, 0].tolist() == [0, 10, 60, 1, 11, 61, 2]
    np.testing.assert_array_equal(layout.value_of(rows)[2], B + 50)


def test_states_lie_before_or_after() -> None:
    layout = SampleLayout.of(cn.sequences([A, B]), "x")
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
        SampleLayout.of(cn.sequences([A, B]), "x").rows_of(value, 2, "input 'x'", torch.float32)


def test_what_is_no_matrix() -> None:
    for wrong in ([[A, A[0]]], [["a"]], []):
        with pytest.raises((ShapeError, ValueError)):
            cn.sequences(*wrong) if wrong else cn.sequences([])


def test_sequences_are_a_sequence_of_arrays() -> None:
    batch = cn.sequences([A, torch.from_numpy(B), [[1.0], [2.0]]])
    assert len(batch) == 3
    assert batch.lengths == (3, 2, 1)
    np.testing.assert_array_equal(batch[1], B)
    assert [array.shape for array in batch] == [(2, 3), (2, 2), (2, 1)]
    assert len(cn.sequences(np.ones((4, 2, 3)))) == len(cn.sequences(torch.ones(4, 2, 3))) == 4
    assert cn.sequences(np.ones((4, 2, 3))).lengths == (3, 3, 3, 3)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ([], "expected at least one sequence"),
        ("abc", "expected a list of arrays, one for each sequence, got 'abc'"),
        (3, "expected a list of arrays"),
        ([A, A[:1]], r"sequences of one batch have equally many rows, got \[1, 2\]"),
        ([A, A[0]], r"sequence 1: expected a matrix of numbers, or one row of integers, got shape \(3,\)"),
    ],
)
def test_what_are_no_sequences(value, says) -> None:
    with pytest.raises(ShapeError, match=says):
        cn.sequences(value)


def test_layouts_in_words() -> None:
    assert str(SampleLayout.of(A, "x")) == "3 samples"
    assert str(SampleLayout.of(cn.sequences([A, B]), "x")) == "2 sequences of 3, 2 frames"
    assert SampleLayout.of(A, "x").num_samples == 3
    assert SampleLayout.of(cn.sequences([A, B, B]), "x").num_samples == 7


def test_nothing_is_no_batch() -> None:
    with pytest.raises(ShapeError, match="x: there are no samples"):
        SampleLayout.of(np.ones((2, 0)), "x")
    with pytest.raises(ShapeError, match="x: there are no frames"):
        SampleLayout.of(cn.sequences([np.ones((2, 0))] * 2), "x")
    assert SampleLayout.of(cn.sequences([np.ones((2, 0)), A]), "x").num_samples == 3  # some may be empty


def test_sorted_layouts_of_states_begin_where_theirs_do() -> None:
    states = SampleLayout.of(cn.sequences([B, A]), "x").of_states(-2)
    assert states.indexes[:, :2].tolist() == [[1, 2], [0, 3], [1, 3], [0, 4]]
    assert states.sorted == SampleLayout((2, 2), True, (3, 2))
    before = SampleLayout.of(cn.sequences([B, A]), "x").of_states(3)
    assert before.lengths == (3, 3)
    assert before.sorted == SampleLayout((3, 3), True, (-3, -3))
    assert before.sorted.sorted == before.sorted


def test_rows_are_copies_of_the_type_that_is_asked_for() -> None:
    layout = SampleLayout.of(A, "x")
    for given in (A, torch.from_numpy(A), A.astype(np.float32)):
        rows = layout.rows_of(given, 2, "x", torch.float64)
        assert rows.dtype == torch.float64
        rows.zero_()
        assert np.asarray(given)[1, 2] == 5
    with pytest.raises(ShapeError, match=r"x: expected one array, a column a sample as for the other inputs, got Seq"):
        layout.rows_of(cn.sequences([A]), 2, "x", torch.float64)
    with pytest.raises(ShapeError, match="x: expected 3 samples as for the other inputs, got 2 samples"):
        layout.rows_of(A[:, :2], 2, "x", torch.float64)
