"""What users give as numbers: kinds of arrays that are taken, and those that are not."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from nnet3.cn.arrays import as_array
from nnet3.errors import ShapeError


class SparseMatrix:
    """What SciPy's sparse matrices have."""

    def toarray(self) -> np.ndarray:
        return np.array([[1.0, 0.0], [2.0, 3.0]])


@pytest.mark.parametrize(
    "value",
    [
        [[1, 0], [2, 3]],
        ((1.0, 0.0), (2.0, 3.0)),
        np.array([[1, 0], [2, 3]], np.uint8),
        np.ma.masked_array([[1.0, 0.0], [2.0, 3.0]], mask=False),
        torch.tensor([[1, 0], [2, 3]]),
        torch.tensor([[1.0, 0.0], [2.0, 3.0]], dtype=torch.bfloat16),
        torch.tensor([[1.0, 0.0], [2.0, 3.0]], dtype=torch.float16),
        torch.tensor([[1.0, 0.0], [2.0, 3.0]]).to_sparse(),
        SparseMatrix(),
    ],
)
def test_numbers_of_all_kinds_become_arrays(value) -> None:
    array = as_array(value, "it")
    assert isinstance(array, np.ndarray)
    np.testing.assert_array_equal(array, [[1, 0], [2, 3]])


def test_truth_values_are_numbers() -> None:
    for value in (torch.tensor([True, False]), np.array([True, False]), [True, False]):
        np.testing.assert_array_equal(as_array(value, "it"), [1, 0])


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (np.ma.masked_array([1.0, 2.0], mask=[True, False]), r"it: some elements of this array are masked: .*filled"),
        ([[1.0], [1.0, 2.0]], r"it: expected numbers, got \[\[1.0\], \[1.0, 2.0\]\]; .* given as cn.sequences"),
        (["a", "b"], r"it: expected a matrix of numbers, got shape \(2,\) of <U1"),
        (np.ones(2, complex), r"it: expected a matrix of numbers, got shape \(2,\) of complex128"),
        (None, "it: expected a matrix of numbers, got shape .* of object"),
        (torch.ones(2, dtype=torch.complex64), "it: expected floats or integers, got torch.complex64"),
    ],
)
def test_what_are_no_numbers(value, says) -> None:
    with pytest.raises(ShapeError, match=says):
        as_array(value, "it")


@pytest.mark.parametrize("kind", [torch.int16, torch.int32, torch.int64, torch.uint8])
def test_integers_of_tensors_stay_exact(kind) -> None:
    largest = torch.iinfo(kind).max
    array = as_array(torch.tensor([largest, 1], dtype=kind), "it")
    assert array.dtype.kind in "iu"
    assert array.tolist() == [largest, 1]
