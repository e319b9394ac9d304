"""Products of float32 matrices with weights in the order of oneDNN, which is part of PyTorch."""

from __future__ import annotations

import torch
from torch import Tensor

_ROWS_AT_ONCE = 512  # whose products are copied while they are in the cache
_FEW_ROWS = 32  # for so many the order of packed weights is chosen; all numbers of rows can be multiplied


class OneDnnWeights:
    """Weights (columns, inner) in the order of oneDNN, with the methods of `Panels`.

    Raises AttributeError or RuntimeError where this PyTorch lacks oneDNN or its functions.
    """

    def __init__(self, weights: Tensor) -> None:
        self._weights: Tensor = torch.ops.mkldnn._reorder_linear_weight(weights.contiguous(), _FEW_ROWS)

    def to_dense(self) -> Tensor:
        return self._weights.to_dense()

    def multiply(self, x: Tensor, y: Tensor, addend: Tensor) -> None:
        """y = addend + x W^T; `addend` is y itself, or a vector for each row."""
        for rows, target in zip(x.split(_ROWS_AT_ONCE), y.split(_ROWS_AT_ONCE), strict=True):
            product = product_with_packed(rows, self._weights)
            torch.add(product, target if addend is y else addend, out=target)


def product_with_packed(left: Tensor, weights: Tensor, bias: Tensor | None = None) -> Tensor:
    """Returns left weights^T + bias, (rows, columns), bias (columns,); weights may be in the order of oneDNN."""
    found: Tensor = torch.ops.mkldnn._linear_pointwise(left, weights, bias, "none", [], "")
    return found
