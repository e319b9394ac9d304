"""Products of float32 matrices without MKL, PyTorch's library, on processors with a faster alternative.

MKL is slow on processors of AMD. Native code multiplies there, given a compiler. Weights of many multiplications
can be packed before, for native code or for oneDNN, which is part of PyTorch and uses AVX-512. Measured on
an EPYC, one thread: 17 x 3072 by 3072 x 160 takes 0.39 ms by MKL, 0.29 ms with weights in the order of oneDNN, 0.19 ms
with panels for native code.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from nnet3.base.native import panels
from nnet3.base.native.library import is_amd, library
from nnet3.base.native.panels import Panels

_MANY_ROWS, _LONG, _LARGE = 2**6, 2**6, 2**22  # rows, terms of a sum, multiplications from which native code is faster
_ROWS_AT_ONCE = 512  # whose products are copied while they are in the cache
_FEW_ROWS = 32  # for so many the order of packed weights is chosen; all numbers of rows can be multiplied


def add_product(y: Tensor, left: Tensor, right: Tensor, addend: Tensor | None = None, alpha: float = 1.0) -> None:
    """y = addend + alpha left right; `addend` is y itself, a matrix like y, a row for each row, or nothing.

    Native code multiplies large matrices of float32 on processors of AMD.
    """
    if _is_by_native_code(y, left, right):
        panels.product(y, left, right, addend, alpha)
    elif addend is None and alpha == 1.0:
        torch.mm(left, right, out=y)
    else:
        torch.addmm(y if addend is None else addend, left, right, beta=float(addend is not None), alpha=alpha, out=y)


def _is_by_native_code(y: Tensor, left: Tensor, right: Tensor) -> bool:
    rows, terms = left.shape
    if rows < _MANY_ROWS or terms < _LONG or rows * right.numel() < _LARGE:
        return False
    if not left.dtype == right.dtype == y.dtype == torch.float32 or not y.is_cpu or y.stride(1) != 1:
        return False
    return is_amd() and library() is not None


class OneDnnWeights:
    """Weights (columns, inner) in the order of oneDNN, with the methods of `Panels`."""

    def __init__(self, weights: Tensor) -> None:
        self._weights: Tensor = torch.ops.mkldnn._reorder_linear_weight(weights.contiguous(), _FEW_ROWS)

    def to_dense(self) -> Tensor:
        return self._weights.to_dense()

    def multiply(self, x: Tensor, y: Tensor, addend: Tensor) -> None:
        """y = addend + x W^T; `addend` is y itself, or a vector for each row."""
        for rows, target in zip(x.split(_ROWS_AT_ONCE), y.split(_ROWS_AT_ONCE), strict=True):
            product = product_with_packed(rows, self._weights)
            torch.add(product, target if addend is y else addend, out=target)


def packed(weights: Tensor) -> Panels | OneDnnWeights:
    """Returns weights (columns, inner) in the order in which they are multiplied fastest."""
    return OneDnnWeights(weights) if library() is None else Panels(weights)


def product_with_packed(left: Tensor, weights: Tensor, bias: Tensor | None = None) -> Tensor:
    """left weights^T, (rows, columns), plus a bias (columns,); the weights may be in the order of oneDNN."""
    found: Tensor = torch.ops.mkldnn._linear_pointwise(left, weights, bias, "none", [], "")
    return found


def packing_is_faster() -> bool:
    """True if products with packed weights are faster than those by MKL."""
    return is_amd() and (library() is not None or onednn_is_faster())


@cache
def onednn_is_faster() -> bool:
    """True on processors of AMD that have AVX-512, where this PyTorch has the function."""
    if not torch.backends.mkldnn.is_available() or torch.backends.cpu.get_cpu_capability() != "AVX512" or not is_amd():
        return False
    left, right = torch.arange(6.0).view(2, 3), torch.arange(12.0).view(3, 4)
    try:
        return torch.equal(product_with_packed(left, right.T, torch.ones(4)), left @ right + 1)
    except (AttributeError, RuntimeError):
        return False
