"""Products: by a number (1.50 to 1.56) or a diagonal (1.79 to 1.85), of matrices and of columns; cosines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from nnet3.base.native import operations as native
from nnet3.base.native.operations import Operations
from nnet3.cn.node import Node
from nnet3.cn.nodes.embedding import embedding, is_sparse_input
from nnet3.cn.nodes.leaves import constant
from nnet3.cn.operation import OWN_VALUE, Matrices, Operation, equal_columns, equal_shapes, put, put_product
from nnet3.cn.shape import Shape
from nnet3.errors import ShapeError
from nnet3.model.components.large_products import add_product


class Scaling(Operation):
    """Base: the second operand, every row times its own number, or all times one number."""

    num_operands: ClassVar[int] = 2
    repeats_forward: ClassVar[bool] = True
    gradient_needs: ClassVar[tuple[frozenset[int], ...]] = (frozenset({1}), frozenset({0}))

    def evaluate(self, inputs: Matrices, output: Tensor) -> None:
        # V = lambda Y (1.50), v_ij = d_i y_ij (1.79)
        torch.mul(inputs[1], inputs[0], out=output)

    def compute_partial_gradient(
        self, child: int, inputs: Matrices, output: Tensor, gradient: Tensor, memo: Any, dx: Tensor, accumulate: bool
    ) -> None:
        # dlambda += vec(dV) . vec(Y) (1.51), dY += lambda dV (1.52)
        # dd_i += sum_j dv_ij y_ij (1.80), dY += diag(d) dV (1.81)
        if child == 0:
            put(dx, (gradient * inputs[1]).sum_to_size(dx.shape), accumulate)
        else:
            put_product(dx, gradient, inputs[0], accumulate)


@dataclass(frozen=True)
class Scale(Scaling):
    type: ClassVar[str] = "scale"
    is_bilinear: ClassVar[bool] = True

    def infer(self, operands: Sequence[Shape]) -> Shape:
        if not operands[0].is_scalar:
            raise ShapeError("scale needs a number (1 x 1) as its first operand")
        return operands[1]


@dataclass(frozen=True)
class DiagTimes(Scaling):
    type: ClassVar[str] = "diag_times"

    def infer(self, operands: Sequence[Shape]) -> Shape:
        d, y = operands
        if d.cols != 1 or d.rows != y.rows:
            raise ShapeError("diag_times needs one column, with as many rows as the second operand")
        return y


def scale(factor: Node | float, y: Node, *, name: str = "") -> Node:
    """lambda Y; `factor` is a number or a 1 x 1 node (which may be learnt)."""
    return Node(Scale(), (factor if isinstance(factor, Node) else constant(factor), y), name)


def diag_times(d: Node, y: Node, *, name: str = "") -> Node:
    """Returns the product of the diagonal matrix of the column d (no samples) and Y."""
    return Node(DiagTimes(), (d, y), name)


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
    """Returns the matrix product X Y; X has no samples (a parameter, or made of parameters). `x @ y` is the same.

    Where Y is a sparse input, only the columns of X are read that are multiplied by something, as by `embedding`.
    """
    if is_sparse_input(y):
        return embedding(x, y, name=name)
    return Node(Times(), (x, y), name)


def khatri_rao_product(x: Node, y: Node, *, name: str = "") -> Node:
    """Column j is the Kronecker product of the columns j of X and Y: X.rows * Y.rows rows."""
    return Node(KhatriRaoProduct(), (x, y), name)


@dataclass(frozen=True)
class Cos(Operation):
    type: ClassVar[str] = "cos"
    num_operands: ClassVar[int] = 2
    gradient_needs: ClassVar[tuple[frozenset[int], ...]] = (frozenset({0, 1, OWN_VALUE}),) * 2
    uses_memo: ClassVar[bool] = True

    def infer(self, operands: Sequence[Shape]) -> Shape:
        return Shape(1, equal_shapes(self.type, *operands).cols)

    def evaluate(self, inputs: Matrices, output: Tensor) -> tuple[Tensor, Tensor]:
        # v_j = x_j . y_j / (|x_j| |y_j|) (1.94); the inverse norms are kept
        x, y = inputs
        inverse_x, inverse_y = inverse_norms(x), inverse_norms(y)
        output.copy_((x * y).sum(1, keepdim=True) * inverse_x * inverse_y)
        return inverse_x, inverse_y

    def compute_partial_gradient(
        self, child: int, inputs: Matrices, output: Tensor, gradient: Tensor, memo: Any, dx: Tensor, accumulate: bool
    ) -> None:
        # dx_j += dv_j (y_j / (|x_j| |y_j|) - v_j x_j / |x_j|^2) (1.95), and the same with x and y exchanged (1.96)
        own, other = inputs[child], inputs[1 - child]
        inverse_own, inverse_other = memo[child], memo[1 - child]
        direction = other * (gradient * inverse_own * inverse_other)
        direction -= own * (gradient * output * inverse_own * inverse_own)
        put(dx, direction, accumulate)


def inverse_norms(matrix: Tensor) -> Tensor:
    """Returns 1 / |x| of each row x; 0 for a row of zeros, whose cosine and gradient are 0 with every row."""
    norms = torch.linalg.vector_norm(matrix, dim=1, keepdim=True)
    return torch.where(norms == 0, 0.0, 1 / norms)


def cos(x: Node, y: Node, *, name: str = "") -> Node:
    """Returns the cosine, from -1 to 1, of the angle between columns j of X and Y, for each j: one row."""
    return Node(Cos(), (x, y), name)
