"""Products of float32 matrices by panels.c: panels.c cuts a factor into panels, or takes given panels."""

from __future__ import annotations

import torch
from torch import Tensor

from nnet3.base.native.library import library

_FEWEST_FOR_THREADS = 2**21  # multiplications


class Panels:
    """Weights W (columns, inner) of a product y = a + x W^T, cut into panels of some columns of y.

    All tensors are of float32 and on the CPU. Raises RuntimeError where there is no native code.
    """

    def __init__(self, weights: Tensor) -> None:
        functions = library()
        if functions is None:
            raise RuntimeError("there is no native code for panels")
        self._multiply = functions.nnet3_panel_product
        self.columns, self.inner = weights.shape
        width = functions.nnet3_columns_of_panel()
        if self.columns % width:
            weights = torch.nn.functional.pad(weights, (0, 0, 0, -self.columns % width))
        self._panels = weights.unflatten(0, (-1, width)).transpose(1, 2).contiguous()

    def to_dense(self) -> Tensor:
        """Returns the weights (columns, inner)."""
        return self._panels.transpose(1, 2).reshape(-1, self.inner)[: self.columns]

    def multiply(self, x: Tensor, y: Tensor, addend: Tensor) -> None:
        """y = addend + x W^T for x (rows, inner), y (rows, columns); `addend` is y itself, or a vector for all rows.

        Columns of y lie side by side. A row of y does not depend on the number of rows.
        """
        rows, inner = x.shape
        if inner != self.inner or y.shape != (rows, self.columns) or addend.shape[-1] != self.columns:
            raise ValueError(f"panels of {self.columns} x {self.inner} and matrices {x.shape}, {y.shape}")
        if rows == 0:
            return
        if y.stride(1) != 1 != self.columns:
            raise ValueError("columns of the result do not lie side by side")
        x = x if x.stride(1) == 1 else x.contiguous()
        of_y, of_addend = y.stride(0), addend.stride(0) if addend.dim() == 2 else 0
        threads = _num_threads(rows * self._panels.numel())
        operands = y.data_ptr(), of_y, x.data_ptr(), x.stride(0), addend.data_ptr(), of_addend
        self._multiply(rows, self.columns, inner, *operands, self._panels.data_ptr(), threads)


def product(y: Tensor, left: Tensor, right: Tensor, addend: Tensor | None = None, alpha: float = 1.0) -> None:
    """y = addend + alpha left right for matrices (rows, inner) and (inner, columns), which may lie in any way.

    `addend` is y itself, a matrix (rows, columns), one row for all rows, or nothing. Columns of `addend` and of y lie
    side by side. All tensors are of float32 and on the CPU. Element (i, j) of y depends on row i of `left`, column j of
    `right` and the addend alone, neither on threads nor on the numbers of rows and columns. Raises ValueError for
    shapes that do not fit, RuntimeError without native code.
    """
    functions = library()
    if functions is None:
        raise RuntimeError("there is no native code for products")
    (rows, inner), columns = left.shape, right.shape[1]
    if len(right) != inner or y.shape != (rows, columns):
        raise ValueError(f"a product of matrices {left.shape}, {right.shape} and a result {y.shape}")
    of_addend = 0
    if addend is not None:
        if addend.shape[-1] != columns or addend.shape[:-1] not in ((), (1,), (rows,)):
            raise ValueError(f"{addend.shape} cannot be added to a product {y.shape}")
        of_addend = addend.stride(0) if addend.shape == y.shape else 0
    if columns > 1 and not 1 == y.stride(1) == (1 if addend is None else addend.stride(-1)):
        raise ValueError("columns of the result or the addend do not lie side by side")
    operands = y.data_ptr(), y.stride(0), left.data_ptr(), *left.stride(), right.data_ptr(), *right.stride()[::-1]
    added = 0 if addend is None else addend.data_ptr(), of_addend
    threads = _num_threads(rows * columns * inner)
    functions.nnet3_product(rows, columns, inner, *operands, *added, alpha, threads)


def _num_threads(multiplications: int) -> int:
    return torch.get_num_threads() if multiplications >= _FEWEST_FOR_THREADS else 1
