"""What is given for inputs, as rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from nnet3 import cn
from nnet3.cn.given import GivenInput
from nnet3.cn.samples import SampleLayout
from nnet3.errors import NetworkError, ShapeError
from tests.seeds import RANDOM

X = RANDOM.normal(size=(3, 5))
TYPES = {torch.float16: np.float16, torch.float32: np.float32, torch.float64: np.float64}


def given(node: Any, **options: Any) -> GivenInput:
    return GivenInput(node, "x", **options)


def rows_of(one: GivenInput, value: Any, dtype: torch.dtype = torch.float64, *, are_rows: bool = False) -> torch.Tensor:
    columns = one.columns(value, are_rows)
    return one.rows(columns, one.layout(columns, None) if one.has_samples else None, dtype)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(
    "array",
    [X, X[:, ::-1], X[::-1], np.asfortranarray(X), X.astype(np.float32), X.astype(">f8"), (9 * X).astype(np.int16)],
    ids=["plain", "backward", "upside down", "by columns", "float32", "other byte order", "integers"],
)
def test_arrays_of_any_kind(array: np.ndarray, dtype: torch.dtype) -> None:
    expected = array.T.astype(TYPES[dtype])
    for value in (array, torch.as_tensor(array.astype(np.float64)).to(dtype)):
        found = rows_of(given(cn.input("x", 3)), value, dtype)
        assert found.is_contiguous()
        np.testing.assert_array_equal(found.numpy(), expected)
    turned = rows_of(given(cn.input("x", 3)), array.T, dtype, are_rows=True)
    np.testing.assert_array_equal(turned.numpy(), expected)


def test_arrays_that_cannot_be_written_are_copied() -> None:
    array = X.copy()
    array.flags.writeable = False
    found = rows_of(given(cn.input("x", 3)), array.T, are_rows=True)
    assert found.data_ptr() != array.ctypes.data
    found += 1
    np.testing.assert_array_equal(found.numpy(), X.T + 1)


def test_numbers_beyond_the_type_become_infinite() -> None:
    found = rows_of(given(cn.input("x", 1)), np.array([[1e300, -1e300, 1.0]]), torch.float32)
    assert found.flatten().tolist() == [np.inf, -np.inf, 1.0]


def test_the_last_layout_stays_while_the_samples_do() -> None:
    one = given(cn.input("x", 3))
    last = one.layout(X, None)
    assert one.layout(X + 1, last) is last
    assert one.layout(X[:, :2], last) == SampleLayout((1, 1), are_sequences=False)
    assert one.layout(cn.sequences([X]), last) == SampleLayout((5,))


@pytest.mark.parametrize(
    ("node", "value", "says"),
    [
        (cn.input("x", 3), X[:2], "expected 3 rows, got 2: a column is a sample, and sequences"),
        (cn.input("x", 3), X[0], r"expected a matrix of numbers, or one row of integers, got shape \(5,\)"),
        (cn.input("x", (2, 3)), X, r"expected shape \(2, 3\), got \(3, 5\)"),
        (cn.input("x", 3, axis="sequence"), cn.sequences([X]), "expected one column for each sequence, got 1 seq"),
    ],
)
def test_what_does_not_fit(node: Any, value: Any, says: str) -> None:
    with pytest.raises(ShapeError, match=f"input 'x': {says}"):
        rows_of(given(node), value)


def test_states_need_the_frames_that_follow() -> None:
    state, after = given(cn.input("x", 3), lag=1), SampleLayout.of(cn.sequences([X, X[:, :2]]), "y")
    found = state.rows(X[:, :2], after, torch.float64)
    np.testing.assert_array_equal(found.numpy(), X[:, :2].T)
    with pytest.raises(ShapeError, match="expected a column for each of 2 sequences, got 5"):
        state.rows(X, after, torch.float64)
    with pytest.raises(NetworkError, match="is an initial state: give the input whose frames it precedes"):
        state.rows(X, None, torch.float64)


@pytest.mark.parametrize(
    ("numbers", "dtype", "says"),
    [
        ([0, 4, -1], torch.float32, ""),
        ([0.0, 3.0], torch.float32, ""),
        ([0, 5], torch.float32, "expected integers 0 ... 4, or -1 for none, got 5"),
        ([0, -2], torch.float32, "got -2"),
        ([0.5, 1.0], torch.float32, "got 0.5"),
    ],
)
def test_class_indexes(numbers: list[float], dtype: torch.dtype, says: str) -> None:
    one, array = given(cn.input("x", classes=5)), np.array([numbers])
    rows = rows_of(one, array, dtype)
    if not says:
        one.check_classes(rows, array)
        return
    with pytest.raises(ShapeError, match=says):
        one.check_classes(rows, array)


def test_types_that_do_not_tell_classes_apart() -> None:
    one = given(cn.input("x", classes=3000))
    rows = rows_of(one, np.array([1, 2]), torch.float16)
    with pytest.raises(ShapeError, match=r"torch\.float16 does not tell 3000 classes apart"):
        one.check_classes(rows, np.array([1, 2]))
