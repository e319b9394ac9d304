"""Products of float32 matrices without MKL, PyTorch's library, on processors with a faster alternative.

Weights of many multiplications can be packed before, for native code or for oneDNN, which is part of PyTorch. Measured
on an EPYC with AVX-512, one thread: 17 x 3072 by 3072 x 160 takes 0.39 ms by MKL, 0.29 ms with weights in the order of
oneDNN, 0.19 ms with panels for native code. Weights that change may be multiplied by AMX. `fastest` measures on the
processor that there is.
"""

from __future__ import annotations

import torch
from torch import Tensor

from nnet3.base.native import panels
from nnet3.base.native.fastest import fastest
from nnet3.base.native.onednn import OneDnnWeights
from nnet3.base.native.panels import Panels

_ELEMENTS_AT_ONCE = 2**20  # of a matrix, for each thread: they stay in the cache
_MANY_ROWS, _LONG, _LARGE = 2**6, 2**6, 2**22  # rows, terms of a sum, multiplications from which native code is faster


def add_product(y: Tensor, left: Tensor, right: Tensor, addend: Tensor | None = None, alpha: float = 1.0) -> None:
    """y = addend + alpha left right; `addend` is y itself, a matrix like y, a row for each row, or nothing.

    Native code multiplies large matrices of float32 on processors where native code is faster.
    """
    if _is_by_native_code(y, left, right):
        panels.product(y, left, right, addend, alpha, by_amx=fastest().changing == "amx")
    elif addend is None and alpha == 1.0:
        torch.mm(left, right, out=y)
    else:
        torch.addmm(y if addend is None else addend, left, right, beta=float(addend is not None), alpha=alpha, out=y)


def product_and_squares(left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """Returns left right, and the sum of the squares of `left`, float64: `left` is read from memory once for both."""
    rows, terms = left.shape
    y = left.new_empty(rows, right.shape[1])
    if left.stride(1) == 1 and _is_by_native_code(y, left, right):
        squares = torch.zeros(rows, dtype=torch.float64)
        panels.product(y, left, right, by_amx=fastest().changing == "amx", squares=squares)
        return y, squares.sum()
    norms, most = left.new_empty(rows), torch.get_num_threads() * _ELEMENTS_AT_ONCE
    count = 1 + most // terms if left.is_cpu and rows * terms > most else max(1, rows)
    for some, product, norm in zip(left.split(count), y.split(count), norms.split(count), strict=True):
        add_product(product, some, right)
        torch.linalg.vector_norm(some, dim=1, out=norm)
    norms = norms.double()
    return y, torch.dot(norms, norms)


def _is_by_native_code(y: Tensor, left: Tensor, right: Tensor) -> bool:
    rows, terms = left.shape
    if rows < _MANY_ROWS or terms < _LONG or rows * right.numel() < _LARGE:
        return False
    if not left.dtype == right.dtype == y.dtype == torch.float32 or not y.is_cpu or y.stride(1) != 1:
        return False
    return fastest().changing != ""


def packed(weights: Tensor) -> Panels | OneDnnWeights:
    """Returns weights (columns, inner) in the fastest order for products."""
    return Panels(weights) if fastest().packed == "panels" else OneDnnWeights(weights)


def amx_is_faster() -> bool:
    """Returns true if AMX multiplies many rows by weights in panels faster than native code without AMX."""
    return fastest() == ("panels", "amx")


def packing_is_faster() -> bool:
    """Returns true if products with packed weights are faster than those by PyTorch."""
    return fastest().packed != ""
