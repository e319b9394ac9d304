"""Checks of arrays before writing: shape, type, and range of numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from nnet3.errors import ArgumentError, ModelFormatError, Nnet3Error


def converted(array: np.ndarray, dtype: DTypeLike) -> np.ndarray:
    """Returns a copy as `dtype`. Float64 beyond the range of float32 becomes an infinity, as in Kaldi."""
    with np.errstate(over="ignore", invalid="ignore"):
        return array.astype(dtype)


def whole_numbers(numbers: np.ndarray) -> np.ndarray | None:
    """Returns float64 numbers as int32, or None if one is no 32-bit integer."""
    whole = np.clip(np.rint(numbers), -(2**31), 2**31 - 1).astype(np.int32)
    return whole if np.array_equal(whole, numbers) else None


def as_array(values: ArrayLike, error: type[Nnet3Error] = ArgumentError) -> np.ndarray:
    """Returns values as an array: PyTorch's tensors without gradient history, bfloat16 as float32.

    Raises `error` for values without numbers of one shape, such as lists of different lengths and sparse tensors.
    """
    try:
        if hasattr(values, "detach"):
            tensor = values.detach().cpu()
            values = tensor.float() if "bfloat16" in str(tensor.dtype) else tensor
        return np.asarray(values)
    except (ValueError, TypeError, RuntimeError, OverflowError) as reason:
        said = str(reason).partition("\n")[0]
        raise error(f"expected an array of numbers, got a {type(values).__name__} that is none: {said}") from None


def float_array(values: ArrayLike, dimensions: int, dtype: DTypeLike) -> np.ndarray:
    """Returns `values` as a contiguous array of `dtype` with `dimensions` dimensions."""
    array = as_array(values, ModelFormatError)
    if array.dtype.kind not in "fiub":
        raise ModelFormatError(f"cannot write numbers of type {array.dtype} as floats")
    if array.ndim != dimensions:
        raise ModelFormatError(f"cannot write an array of shape {array.shape} where {dimensions} dimension(s) belong")
    return np.ascontiguousarray(array if array.dtype == dtype else converted(array, dtype))


def int32_array(values: ArrayLike, columns: int | None = None) -> np.ndarray:
    """Returns `values` as a contiguous int32 array, (n,) or, with `columns`, (n, columns)."""
    array = as_array(values, ModelFormatError)
    if array.size == 0:
        return np.empty((0,) if columns is None else (0, columns), np.int32)
    expected = "(n,)" if columns is None else f"(n, {columns})"
    if array.ndim != (1 if columns is None else 2) or (columns and array.shape[1] != columns):
        raise ModelFormatError(f"cannot write an array of shape {array.shape} as integers of shape {expected}")
    if not np.issubdtype(array.dtype, np.integer):
        raise ModelFormatError(f"cannot write numbers of type {array.dtype} as integers")
    if array.min() < -(2**31) or array.max() >= 2**31:
        raise ModelFormatError("cannot write an integer that does not fit 32 bits")
    return np.ascontiguousarray(array, "<i4")
