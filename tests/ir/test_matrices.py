"""Matrices from outside as tensors: which are taken, as what, and which are refused."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

from nnet3.engine.ir.matrices import as_tensor
from nnet3.errors import ArgumentError, ExecutionError


@pytest.mark.parametrize(
    ("matrix", "dtype"),
    [
        (np.ones((2, 3)), torch.float64),
        (np.ones((2, 3), np.float16), torch.float16),
        (np.ones((2, 3), np.int64), torch.float32),
        (np.ma.masked_array(np.ones((2, 3)), mask=False), torch.float64),
        (np.ma.masked_array(np.ones((2, 3))), torch.float64),
        (torch.ones(2, 3, dtype=torch.bfloat16), torch.bfloat16),
        (torch.ones(2, 3, dtype=torch.uint8), torch.float32),
    ],
)
def test_types_of_numbers(matrix: object, dtype: torch.dtype) -> None:
    tensor = as_tensor(matrix, "it")
    assert tensor.dtype == dtype
    assert (tensor == 1).all()
    assert as_tensor(matrix, "it", dtype=torch.float64).dtype == torch.float64


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.ma.masked_array(np.ones((2, 3)), mask=np.eye(2, 3)), "it: some elements of this array are masked"),
        ([[1.0]], "it: expected a tensor or an array, got list: numpy.asarray makes an array$"),
        (None, "it: expected a tensor or an array, got NoneType$"),
        (np.ones((2, 3), bool), "it: expected floats or integers, got"),
        (np.ones((2, 3), complex), "it: expected floats or integers, got"),
    ],
)
def test_what_is_refused(matrix: object, message: str) -> None:
    for error in (ExecutionError, ArgumentError):
        with pytest.raises(error, match=message):
            as_tensor(matrix, "it", error=error)


def test_memory_is_shared_unless_a_copy_is_asked_for() -> None:
    for matrix in (np.ones((2, 3), np.float32), torch.ones(2, 3)):
        shared, copied = as_tensor(matrix, "it"), as_tensor(matrix, "it", copy=True)
        matrix[0, 0] = 5.0
        assert (float(shared[0, 0]), float(copied[0, 0])) == (5.0, 1.0)


def test_a_gradient_is_warned_of_where_autograd_is_on() -> None:
    matrix = torch.ones(2, 3, requires_grad=True)
    with pytest.warns(UserWarning, match="it: this tensor requires grad"):
        assert not as_tensor(matrix, "it").requires_grad
    with warnings.catch_warnings(), torch.no_grad():
        as_tensor(matrix, "it")
    as_tensor(matrix.detach(), "it")
