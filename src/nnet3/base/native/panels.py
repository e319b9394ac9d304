"""Products of float32 matrices by panels.c: panels.c cuts a factor into panels, or takes given panels."""

from __future__ import annotations

import copy

import torch
from torch import Tensor

from nnet3.base.native.library import library

_FEWEST_FOR_THREADS = 2**21  # multiplications


class Panels:
    """Weights W (columns, inner) of a product y = a + x W^T, cut into panels of some columns of y.

    `panels` (panels, inner, columns of a panel): the last one is filled up with zeros. All tensors are of float32 and
    on the CPU. Raises RuntimeError where there is no native code.
    """

    def __init__(self, weights: Tensor) -> None:
        if library() is None:
            raise RuntimeError("there is no native code for panels")
        self.columns, width = len(weights), columns_of_panel()
        self.panels = weights.new_zeros(-(-self.columns // width), weights.shape[1], width)
        make_panels(self.panels, weights)

    def to_dense(self) -> Tensor:
        """Returns the weights (columns, inner)."""
        return self.panels.transpose(1, 2).flatten(0, 1)[: self.columns]

    def part(self, first: int, end: int) -> Panels:
        """Returns the weights of columns [first, end) of x, in the same memory."""
        part = copy.copy(self)
        part.panels = self.panels[:, first:end]
        return part

    def multiply(self, x: Tensor, y: Tensor, addend: Tensor) -> None:
        """y = addend + x W^T for x (rows, inner), y (rows, columns); `addend` is like y, y itself, or a vector.

        Columns of y lie side by side. A row of y does not depend on the number of rows.
        """
        multiply_by_panels(y, x, self.panels, addend, self.columns)


def columns_of_panel() -> int:
    """Returns how many columns of a product a panel has, as many as two registers of the processor."""
    functions = library()
    assert functions is not None
    width: int = functions.nnet3_columns_of_panel()
    return width


def make_panels(panels: Tensor, weights: Tensor) -> None:
    """Cuts weights (columns, inner) into panels, which fill memory of as many numbers as are in whole panels."""
    functions = library()
    assert functions is not None
    functions.nnet3_make_panels(*weights.shape, panels.data_ptr(), weights.data_ptr(), *weights.stride())


def panels_in(matrix: Tensor) -> Tensor | None:
    """Returns a matrix of float32 (inner, columns) as memory for panels of weights; None if panels do not fit."""
    if matrix.dtype != torch.float32 or not matrix.is_cpu or not matrix.is_contiguous() or library() is None:
        return None
    (inner, columns), width = matrix.shape, columns_of_panel()
    return None if columns % width else matrix.view(columns // width, inner, width)


def multiply_by_panels(y: Tensor, x: Tensor, panels: Tensor, addend: Tensor | None, columns: int) -> None:
    """y = addend + x W^T for x (rows, inner), y (rows, columns); `addend` is y itself, like y, a vector, or none.

    `panels` (panels, inner, columns of a panel): W in panels. Columns of y lie side by side. A row of y does not
    depend on the number of rows.
    """
    functions, (rows, inner) = library(), x.shape
    assert functions is not None
    held, shapes = panels.shape[1], [each.shape for each in (x, y, addend) if each is not None]
    if held != inner or y.shape != (rows, columns) or shapes[-1][-1] != columns:
        raise ValueError(f"panels of {columns} x {held} and matrices {', '.join(map(str, shapes))}")
    if rows == 0:
        return
    if y.stride(1) != 1 != columns:
        raise ValueError("columns of the result do not lie side by side")
    x = x if x.stride(1) == 1 else x.contiguous()
    of_addend = addend.stride(0) if addend is not None and addend.dim() == 2 else 0
    threads = num_threads(rows * panels.numel())
    added = 0 if addend is None else addend.data_ptr(), of_addend
    operands = y.data_ptr(), y.stride(0), x.data_ptr(), x.stride(0), *added
    functions.nnet3_panel_product(rows, columns, inner, *operands, panels.data_ptr(), panels.stride(0), threads)


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
    threads = num_threads(rows * columns * inner)
    functions.nnet3_product(rows, columns, inner, *operands, *added, alpha, threads)


def num_threads(multiplications: int) -> int:
    """Returns how many threads share a product."""
    return torch.get_num_threads() if multiplications >= _FEWEST_FOR_THREADS else 1
