"""Plus, minus and the element-wise product (1.64 to 1.78), with the chapter's expansion by repetition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from nnet3.base.native import operations as native
from nnet3.base.native.operations import Operations
from nnet3.cn.node import Node
from nnet3.cn.operation import Matrices, Operation, native_put, put, put_product, put_scaled
from nnet3.cn.shape import Shape
from nnet3.errors import ShapeError


class Expanding(Operation):
    """Base of operations of two operands, repeated to a common shape.

    Rows: equal, or one operand has one row. Columns: equal, or one number is a multiple of the second; over samples
    only a single column is repeated.
    """

    num_operands: ClassVar[int] = 2
    repeats_forward: ClassVar[bool] = True
    evaluates_in_place: ClassVar[bool] = True

    def infer(self, operands: Sequence[Shape]) -> Shape:
        x, y = operands
        if x.rows != y.rows and 1 not in (x.rows, y.rows):
            raise ShapeError(f"{self.type} needs operands with as many rows as each other, or one row")
        rows = max(x.rows, y.rows)
        if x.cols == y.cols:
            return Shape(rows, x.cols)
        if not isinstance(x.cols, int) or not isinstance(y.cols, int):
            if x.has_samples and y.has_samples:
                raise ShapeError(f"{self.type} needs operands on one axis: see broadcast_as, gather and reductions")
            if 1 not in (x.cols, y.cols):
                raise ShapeError(f"{self.type} can repeat over samples only an operand with one column")
            return Shape(rows, x.cols if y.cols == 1 else y.cols)
        more, less = max(x.cols, y.cols), min(x.cols, y.cols)
        if more % less:
            raise ShapeError(f"{self.type} needs columns equal in number, or one number a multiple of the other")
        return Shape(rows, more)


class LinearSum(Expanding):
    """Base: the first operand plus the second times its factor."""

    is_native: ClassVar[bool] = True

    def native_value(self, inputs: Matrices, output: Tensor) -> Operations | None:
        return native.add(output, inputs[1], self.linear_factors[1], inputs[0])

    def native_gradient(
        self, child: int, inputs: Matrices, output: Tensor, gradient: Tensor, dx: Tensor, accumulate: bool
    ) -> Operations | None:
        return native_put(dx, gradient, accumulate, self.linear_factors[child])


@dataclass(frozen=True)
class Plus(LinearSum):
    type: ClassVar[str] = "plus"
    linear_factors: ClassVar[tuple[float, ...]] = (1.0, 1.0)
    num_operands: ClassVar[int] = 2
    gradient_in_place: ClassVar[bool] = True

    def evaluate(self, inputs: Matrices, output: Tensor) -> None:
        # V = X + Y (1.69)
        apply(torch.add, inputs, output)

    def compute_partial_gradient(
        self, child: int, inputs: Matrices, output: Tensor, gradient: Tensor, memo: Any, dx: Tensor, accumulate: bool
    ) -> None:
        # dX += dV, summed over where X was repeated (1.70, 1.71)
        if dx.size(0) == 1 < gradient.size(0) and dx.size(1) == gradient.size(1) and not accumulate:
            torch.sum(gradient, 0, keepdim=True, out=dx)
        else:
            put(dx, fold(gradient, dx), accumulate)


@dataclass(frozen=True)
class Minus(LinearSum):
    type: ClassVar[str] = "minus"
    linear_factors: ClassVar[tuple[float, ...]] = (1.0, -1.0)
    gradient_in_place: ClassVar[bool] = True

    def evaluate(self, inputs: Matrices, output: Tensor) -> None:
        # V = X - Y (1.76)
        apply(torch.sub, inputs, output)

    def compute_partial_gradient(
        self, child: int, inputs: Matrices, output: Tensor, gradient: Tensor, memo: Any, dx: Tensor, accumulate: bool
    ) -> None:
        # dX += dV (1.77) and dY -= dV (1.78), summed over where they were repeated
        put_scaled(dx, fold(gradient, dx), self.linear_factors[child], accumulate)


@dataclass(frozen=True)
class ElementTimes(Expanding):
    type: ClassVar[str] = "element_times"
    is_bilinear: ClassVar[bool] = True
    gradient_needs: ClassVar[tuple[frozenset[int], ...]] = (frozenset({1}), frozenset({0}))
    evaluates_in_place: ClassVar[bool] = False
    gradient_in_place: ClassVar[bool] = True

    def evaluate(self, inputs: Matrices, output: Tensor) -> None:
        # v_ij = x_ij y_ij (1.64)
        apply(torch.mul, inputs, output)

    def compute_partial_gradient(
        self, child: int, inputs: Matrices, output: Tensor, gradient: Tensor, memo: Any, dx: Tensor, accumulate: bool
    ) -> None:
        # dX += dV * Y (1.65), dY += dV * X (1.66), summed over where the operand was repeated
        other = inputs[1 - child]
        if dx.shape == gradient.shape and (other.size(0) == 1 or other.size(0) == gradient.size(0)):
            put_product(dx, gradient, other, accumulate)
            return
        product = torch.empty_like(gradient)
        apply(torch.mul, (gradient, other), product)
        put(dx, fold(product, dx), accumulate)

    is_native: ClassVar[bool] = True

    def native_value(self, inputs: Matrices, output: Tensor) -> Operations | None:
        return native.multiply(output, inputs[0], inputs[1])

    def native_gradient(
        self, child: int, inputs: Matrices, output: Tensor, gradient: Tensor, dx: Tensor, accumulate: bool
    ) -> Operations | None:
        return native_put(dx, gradient, accumulate, other=inputs[1 - child])


def apply(function: Callable[..., Tensor], inputs: Matrices, output: Tensor) -> None:
    """output = function(x, y), the operands repeated to the size of the output: rows in blocks, one column to all."""
    x, y = inputs
    rows, x_rows, y_rows = output.size(0), x.size(0), y.size(0)
    if (x_rows == rows or x_rows == 1) and (y_rows == rows or y_rows == 1):
        function(x, y, out=output)
        return
    small = min(x_rows, y_rows)
    blocks = [matrix.unflatten(0, (-1, small)) for matrix in (x, y, output)]  # (repetitions, rows, columns)
    function(blocks[0], blocks[1], out=blocks[2])


def fold(value: Tensor, like: Tensor) -> Tensor:
    """Returns the sum of `value` over what was repeated, in the size of `like`."""
    if value.size(0) != like.size(0):
        value = value.unflatten(0, (-1, like.size(0))).sum(0)
    if value.size(1) != like.size(1):
        value = value.sum(1, keepdim=True)
    return value


def plus(x: Node, y: Node, *, name: str = "") -> Node:
    """X + Y. Rows are equal, or 1; columns equal, or one number a multiple of the other: the smaller is repeated."""
    return Node(Plus(), (x, y), name)


def minus(x: Node, y: Node, *, name: str = "") -> Node:
    """X - Y, expanded as `plus` does."""
    return Node(Minus(), (x, y), name)


def element_times(x: Node, y: Node, *, name: str = "") -> Node:
    """Returns the product of X and Y element by element, expanded as `plus` does."""
    return Node(ElementTimes(), (x, y), name)
