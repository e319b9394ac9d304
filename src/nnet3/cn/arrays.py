"""Numbers that users give, as arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from nnet3.errors import ShapeError
from nnet3.ir.matrices import as_tensor


def as_array(value: Any, what: str) -> np.ndarray:
    """The numbers of an array, a tensor or a list of lists as an array; `what` names them.

    Sparse matrices become dense. Raises ShapeError for what holds no real numbers: complex
    ones, masked ones, texts, tensors without data. Warns of a tensor that requires grad.
    """
    if isinstance(value, Tensor):
        tensor = value.byte() if value.dtype == torch.bool else value
        tensor = tensor if tensor.layout == torch.strided else tensor.to_dense()
        kind = None if tensor.is_floating_point() or tensor.is_complex() else tensor.dtype  # integers stay exact
        tensor = as_tensor(tensor, what, dtype=kind, device="cpu", error=ShapeError)
        return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise ShapeError(f"{what}: some elements of this array are masked: say what they are, with .filled(...)")
    try:
        array = np.asarray(value.toarray() if hasattr(value, "toarray") else value)
    except (TypeError, ValueError, RuntimeError):
        ragged = (
            "; sequences of several lengths are given as cn.sequences([...]), bags as cn.bags"
            if isinstance(value, list)
            else ""
        )
        raise ShapeError(f"{what}: expected numbers, got {repr(value)[:80]}{ragged}") from None
    if array.dtype.kind not in "fiub":
        raise ShapeError(f"{what}: expected a matrix of numbers, got shape {array.shape} of {array.dtype}")
    return array
