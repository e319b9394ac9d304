"""Matrix product (1.57 to 1.63) and Khatri-Rao product (1.89 to 1.93)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from nnet3.cn.node import Node
from nnet3.cn.nodes.embedding import embedding, is_sparse_input
from nnet3.cn.operation import Matrices, Operation, equal_columns, put
from nnet3.cn.shape import Shape
from nnet3.components.large_products import add_product
from nnet3.errors import ShapeError
from nnet3.native import operations as native
from nnet3.native.operations import Operations


@dataclass(frozen=True)
class Times(Operation):
    type: ClassVar[str] = "times"
    weights: ClassVar[tuple[int, ...]] = (0,)
    num_operands: ClassVar[int] = 2
    gradient_needs: ClassVar[tuple[frozenset[int], ...]] = (frozenset({1}), frozenset({0}))

    def infer(self, operands: Sequence[Shape]) -> Shape:
        x, y = operands
        if x.has_samples:
            raise ShapeError("times needs a first operand without samples: a sum over samples is no value of a sample")
        if x.cols != y.rows:
            raise ShapeError("times needs as many columns in the first operand as rows in the second")
        return Shape(x.rows, y.cols)

    def evaluate(self, inputs: Matrices, output: Tensor) -> None:
        # V = X Y (1.57); what lies in memory is V^T = Y^T X^T
        add_product(output, inputs[1], inputs[0])

    def compute_partial_gradient(
        self, child: int, inputs: Matrices, output: Tensor, gradient: Tensor, memo: Any, dx: Tensor, accumulate: bool
    ) -> None:
        # dX += dV Y^T (1.58), dY += X^T dV (1.59)
        left, right = (inputs[1].T, gradient) if child == 0 else (gradient, inputs[0].T)
        add_product(dx, left, right, dx if accumulate else None)

    is_native: ClassVar[bool] = True

    def native_value(self, inputs: Matrices, output: Tensor) -> Operations | None:
        return native.product(output, inputs[1], inputs[0].t(), None, packs=True)

    def native_gradient(
        self, child: int, inputs: Matrices, output: Tensor, gradient: Tensor, dx: Tensor, accumulate: bool
    ) -> Operations | None:
        left, right = (inputs[1].t(), gradient.t()) if child == 0 else (gradient, inputs[0])
        return native.product(dx, left, right, dx if accumulate else None, packs=True)


@dataclass(frozen=True)
class KhatriRaoProduct(Operation):
    type: ClassVar[str] = "khatri_rao_product"
    num_operands: ClassVar[int] = 2
    gradient_needs: ClassVar[tuple[frozenset[int], ...]] = (frozenset({1}), frozenset({0}))

    def infer(self, operands: Sequence[Shape]) -> Shape:
        x, y = operands
        return Shape(x.rows * y.rows, equal_columns(self.type, x, y))

    def evaluate(self, inputs: Matrices, output: Tensor) -> None:
        # v_.j = x_.j (x) y_.j: element i * Y.rows + k of a column is x_ij y_kj (1.89)
        x, y = inputs
        blocks = output.unflatten(1, (x.shape[1], y.shape[1]))  # (samples, X.rows, Y.rows)
        torch.mul(x[:, :, None], y[:, None, :], out=blocks)

    def compute_partial_gradient(
        self, child: int, inputs: Matrices, output: Tensor, gradient: Tensor, memo: Any, dx: Tensor, accumulate: bool
    ) -> None:
        # [dX]_.j += [dv_.j]_(X.rows, Y.rows) y_.j (1.90), [dY]_.j += [dv_.j]^T_(X.rows, Y.rows) x_.j (1.91)
        if child == 0:
            blocks = gradient.unflatten(1, (dx.shape[1], inputs[1].shape[1]))
            put(dx, torch.matmul(blocks, inputs[1][:, :, None]).squeeze(2), accumulate)
        else:
            blocks = gradient.unflatten(1, (inputs[0].shape[1], dx.shape[1]))
            put(dx, torch.matmul(inputs[0][:, None, :], blocks).squeeze(1), accumulate)


def times(x: Node, y: Node, *, name: str = "") -> Node:
    """The matrix product X Y; X has no samples (a parameter, or made of parameters). `x @ y` is the same.

    Where Y is a sparse input, only the columns of X are read that are multiplied by something, as by `embedding`.
    """
    if is_sparse_input(y):
        return embedding(x, y, name=name)
    return Node(Times(), (x, y), name)


def khatri_rao_product(x: Node, y: Node, *, name: str = "") -> Node:
    """Column j is the Kronecker product of the columns j of X and Y: X.rows * Y.rows rows."""
    return Node(KhatriRaoProduct(), (x, y), name)
