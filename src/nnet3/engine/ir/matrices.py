"""Matrices from outside: anything that holds real numbers in rows becomes a tensor, and is looked at."""

from __future__ import annotations

import math
import warnings

import numpy as np
import torch
from torch import Tensor

from nnet3.errors import ExecutionError, Nnet3Error

Matrix = Tensor | np.ndarray


def as_tensor(
    matrix: object,
    what: str,
    *,
    dtype: torch.dtype | None = None,
    device: str | torch.device | None = None,
    error: type[Nnet3Error] = ExecutionError,
    copy: bool = False,
) -> Tensor:
    """Returns the numbers of a tensor or array, of any float or integer dtype and strides, as `dtype` on `device`.

    Without `dtype` floats stay what they are and integers become float32. The tensor has no gradient history; it may
    share memory with the matrix unless `copy` is set. Raises `error` for anything else, such as lists and complex
    numbers; `what` names the matrix. Warns of a tensor that requires grad.
    """
    if isinstance(matrix, np.ma.MaskedArray) and np.ma.is_masked(matrix):
        raise error(f"{what}: some elements of this array are masked: say what they are, with .filled(...)")
    if isinstance(matrix, np.ndarray):
        tensor = _from_array(matrix, what, dtype, error)
    elif isinstance(matrix, Tensor) and matrix.layout == torch.strided and not (matrix.is_nested or matrix.is_meta):
        warn_of_gradient(matrix, what)
        tensor = matrix.detach()
    else:
        raise error(f"{what}: expected a tensor or an array, got {_kind(matrix)}")
    if tensor.is_complex() or tensor.dtype == torch.bool or tensor.is_quantized:
        raise error(f"{what}: expected floats or integers, got {tensor.dtype}")
    dtype = dtype or (tensor.dtype if tensor.is_floating_point() else torch.float32)
    return tensor.to(device=device, dtype=dtype, copy=copy)


def is_finite(matrix: Tensor) -> bool:
    """Returns True if no element is NaN or infinite. The sum nearly always tells, at a fiftieth of the cost."""
    return math.isfinite(matrix.sum().item()) or bool(matrix.isfinite().all())


def _kind(matrix: object) -> str:
    if not isinstance(matrix, Tensor):
        return type(matrix).__name__ + ": numpy.asarray makes an array" * isinstance(matrix, list | tuple)
    if matrix.is_meta:
        return "a tensor without data, on the device 'meta'"
    return "a nested tensor" if matrix.is_nested else f"a tensor with layout {matrix.layout}"


def warn_of_gradient(tensor: Tensor, what: str) -> None:
    """Warn if autograd is on and the tensor, which `what` names, requires grad: nothing is recorded here."""
    if tensor.requires_grad and torch.is_grad_enabled():
        warnings.warn(
            f"{what}: this tensor requires grad, but nnet3 computes without autograd: what comes out has no gradient "
            "history. Autograd goes through an nnet3.TorchModule (docs/pytorch_users.md); if none is wanted, "
            "give .detach(), or compute under torch.no_grad()",
            UserWarning,
            stacklevel=3,
        )


def _from_array(array: np.ndarray, what: str, dtype: torch.dtype | None, error: type[Nnet3Error]) -> Tensor:
    if array.dtype.kind not in "fiu":
        raise error(f"{what}: expected floats or integers, got {array.dtype}")
    is_plain = array.dtype in (np.float32, np.float64, np.float16) and array.dtype.isnative
    wanted = array.dtype if is_plain and dtype is None else np.float64 if dtype == torch.float64 else np.float32
    if np.issubdtype(array.dtype, np.floating) and not is_plain and dtype is None:
        wanted = np.float64
    with np.errstate(over="ignore"):  # what becomes infinite is found by who computes with it
        converted = array.astype(wanted, copy=not array.flags.writeable or min(array.strides, default=0) < 0)
    return torch.from_numpy(np.require(converted, requirements=["C", "W"]))
