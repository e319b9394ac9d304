"""Cosine of the angle between columns (1.94 to 1.99)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from nnet3.cn.node import Node
from nnet3.cn.operation import OWN_VALUE, Matrices, Operation, equal_shapes, put
from nnet3.cn.shape import Shape


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
    """1 / |x| of each row x; 0 for a row of zeros, which has cosine and gradient 0 with every other."""
    norms = torch.linalg.vector_norm(matrix, dim=1, keepdim=True)
    return torch.where(norms == 0, 0.0, 1 / norms)


def cos(x: Node, y: Node, *, name: str = "") -> Node:
    """The cosine of the angle between the columns j of X and Y, for each j: one row. (A similarity, from -1 to 1.)"""
    return Node(Cos(), (x, y), name)
