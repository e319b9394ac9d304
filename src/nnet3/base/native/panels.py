"""Products of float32 matrices by panels.c: panels.c cuts a factor into panels, or takes given panels."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from nnet3.base.native.huge_pages import zeros_for_long
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
        self.panels = zeros_for_long(-(-self.columns // width), weights.shape[1], width)
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


class PanelsOfOffsets:
    """Weights W_o (columns, inner) of a sum of products y = b + sum_o x_o W_o^T, where x_o are rows of one matrix x."""

    def __init__(self, weights: Sequence[Panels]) -> None:
        """`weights`: the W_o, of the same size."""
        self._weights = tuple(weights)  # whose memory this reads
        self._addresses = np.array([each.panels.data_ptr() for each in weights], np.int64)
        first = weights[0].panels
        self._sizes = weights[0].columns, first.shape[1], self._addresses.ctypes.data, len(weights), first.stride(0)
        self._multiplications = first.numel()

    def multiply(self, x: Tensor, y: Tensor, bias: Tensor, blocks: np.ndarray, *, by_amx: bool = False) -> None:
        """y = b + sum over blocks of x_o W_o^T. Columns of x, of y and of b (columns,) lie side by side.

        With `by_amx` AMX multiplies where it can. Either way a row of y does not depend on the number of rows.

        `blocks` (blocks, 6), int64: the number of an offset o; the first row of y that gets its product, and the end of
        these rows, which counts from the last row, 0 or negative; the first row of x_o in x, the end, which nobody
        reads, and how many rows of x lie from one row of x_o to the next. Raises ValueError for blocks or matrices that
        do not fit.
        """
        functions, (rows, columns), (rows_of_x, inner) = library(), y.shape, x.shape
        assert functions is not None
        if rows == 0:
            return
        of_weights = self._sizes
        fits = (columns, inner) == of_weights[:2] and bias.shape == (columns,) and blocks.shape[1:] == (6,)
        if fits:
            threads = num_threads(rows * self._multiplications)
            operands = y.data_ptr(), y.stride(0), x.data_ptr(), x.stride(0), bias.data_ptr(), *of_weights[2:]
            fits = functions.nnet3_sum_of_blocks(
                *(rows, rows_of_x, columns, inner, *operands, blocks.ctypes.data, len(blocks), by_amx, threads)
            )
        if not fits:
            raise ValueError(f"panels of {of_weights[0]} x {of_weights[1]} and matrices {x.shape}, {y.shape}, {blocks}")


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


def has_amx() -> bool:
    """Returns True where processor and system let native code multiply by AMX."""
    functions = library()
    return functions is not None and bool(functions.nnet3_has_amx())


def product(
    y: Tensor,
    left: Tensor,
    right: Tensor,
    addend: Tensor | None = None,
    alpha: float = 1.0,
    *,
    by_amx: bool = False,
    squares: Tensor | None = None,
) -> None:
    """y = addend + alpha left right for matrices (rows, inner) and (inner, columns), which may lie in any way.

    `addend` is y itself, a matrix (rows, columns), one row for all rows, or nothing. Columns of `addend` and of y lie
    side by side. All tensors are of float32 and on the CPU. Element (i, j) of y depends on row i of `left`, column j of
    `right` and the addend alone, neither on threads nor on the number of rows; on the number of columns only by whether
    one panel holds all. With `by_amx` AMX multiplies where it can (see amx.c). The squares of row i of `left`, whose
    columns lie side by side then, are added to element i of `squares`, (rows,), float64. Raises ValueError for shapes
    that do not fit, RuntimeError without native code.
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
    if squares is not None and (left.stride(1) != 1 or squares.shape != (rows,) or squares.dtype != torch.float64):
        raise ValueError(f"squares {squares.shape} of a matrix {left.shape} whose columns lie side by side")
    operands = y.data_ptr(), y.stride(0), left.data_ptr(), *left.stride(), right.data_ptr(), *right.stride()[::-1]
    added = 0 if addend is None else addend.data_ptr(), of_addend
    of_squares = 0 if squares is None else squares.data_ptr()
    given = rows, columns, inner, *operands, *added, alpha, of_squares, num_threads(rows * columns * inner)
    if not by_amx or not functions.nnet3_amx_product(*given):
        functions.nnet3_product(*given)


def num_threads(multiplications: int) -> int:
    """Returns how many threads share a product."""
    return torch.get_num_threads() if multiplications >= _FEWEST_FOR_THREADS else 1
