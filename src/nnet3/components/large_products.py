"""Products of float32 matrices by others than MKL, by which PyTorch multiplies, on processors where they are faster.

MKL is slow on processors of AMD. oneDNN, which is part of PyTorch, uses their AVX-512. Measured on an EPYC, one thread:
256 x 1024 by 1024 x 1024 takes 6.3 ms by MKL and 5.4 ms by oneDNN. Weights that are multiplied many times can be packed
before: 17 x 3072 by 3072 x 160 takes 0.39 ms by MKL, 0.29 ms with weights in the order of oneDNN, 0.19 ms with panels
for native code.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from nnet3.native.library import is_amd, library
from nnet3.native.panels import Panels

_LARGE = 2**25  # multiplications from which it pays to copy the product to where it is wanted
_MANY_ROWS, _LARGE_FOR_PANELS = 2**11, 2**28  # rows and multiplications from which it pays to make panels for a product
_TALL = 2**20  # multiplications from which a matrix of few columns is better made row by row
_ROWS_AT_ONCE = 512  # whose products are copied while they are in the cache
_FEW_ROWS = 32  # for so many the order of packed weights is chosen; all numbers of rows can be multiplied


def is_by_onednn(left: Tensor, right: Tensor) -> bool:
    """True if oneDNN multiplies these matrices faster than MKL does."""
    if left.size(0) * right.size(0) * right.size(1) < _LARGE or left.dtype != torch.float32:
        return False
    return left.device.type == "cpu" and left.size(0) > 1 and onednn_is_faster()


def product_by_onednn(left: Tensor, right: Tensor, bias: Tensor | None = None) -> Tensor:
    """left right, (rows, columns), plus a bias (columns,)."""
    return product_with_packed(left, right.T, bias)


def add_product(y: Tensor, x: Tensor, weights: Tensor, addend: Tensor | None = None) -> None:
    """y = addend + x weights^T; `addend` is y itself, a vector for each row, or nothing.

    Native code multiplies large matrices on processors of AMD, with panels that are made of the weights for this once.
    """
    if _is_by_panels(x, weights):
        if addend is None:
            addend = weights.new_zeros(len(weights))
        Panels(weights).multiply(x, y, addend)
    elif addend is None:
        torch.mm(x, weights.t(), out=y)
    else:
        torch.addmm(addend, x, weights.t(), out=y)


def _is_by_panels(x: Tensor, weights: Tensor) -> bool:
    if x.size(0) < _MANY_ROWS or x.size(0) * weights.numel() < _LARGE_FOR_PANELS or x.dtype != torch.float32:
        return False
    return x.is_cpu and is_amd() and library() is not None


def is_tall(left: Tensor, right: Tensor) -> bool:
    """True if left^T right is large and has few columns: MKL is slow then, as for gradients of a last layer's weights.

    Of 1,600 samples, 512 numbers each, by 1,600 x 10 it takes 1.7 ms, the other way round 0.3.
    """
    rows, columns = left.size(1), right.size(1)
    return rows >= 8 * columns and rows * columns * left.size(0) >= _TALL


def tall_product(left: Tensor, right: Tensor) -> Tensor:
    """left^T right, (columns of left, columns of right), made as its transpose."""
    return torch.mm(right.T, left).T


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
