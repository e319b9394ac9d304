"""Scalars made of all elements of an operand: sum, L1 norm, L2 (Frobenius) norm and its square (1.38 to 1.49)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from nnet3.cn.node import Node
from nnet3.cn.operation import OWN_VALUE, Matrices, Operation, put, put_scaled
from nnet3.cn.shape import Shape


class Total(Operation):
    """Base: a number from all elements of an operand, over all samples."""

    def infer(self, operands: Sequence[Shape]) -> Shape:
        return Shape(1, 1)


@dataclass(frozen=True)
class SumElements(Total):
    type: ClassVar[str] = "sum_elements"

    def evaluate(self, inputs: Matrices, output: Tensor) -> None:
        # v = sum_ij x_ij (1.38)
        output.fill_(inputs[0].sum())

    def compute_partial_gradient(
        self, child: int, inputs: Matrices, output: Tensor, gradient: Tensor, memo: Any, dx: Tensor, accumulate: bool
    ) -> None:
        # dX += dv, for every element (1.39)
        put(dx, gradient.expand_as(dx), accumulate)


@dataclass(frozen=True)
class L1Norm(Total):
    type: ClassVar[str] = "l1_norm"
    gradient_needs: ClassVar[tuple[frozenset[int], ...]] = (frozenset({0}),)

    def evaluate(self, inputs: Matrices, output: Tensor) -> None:
        # v = sum_ij |x_ij| (1.42)
        output.fill_(inputs[0].abs().sum())

    def compute_partial_gradient(
        self, child: int, inputs: Matrices, output: Tensor, gradient: Tensor, memo: Any, dx: Tensor, accumulate: bool
    ) -> None:
        # dX += dv * sgn(X) (1.43)
        put_scaled(dx, torch.sign(inputs[0]), gradient, accumulate)


@dataclass(frozen=True)
class L2Norm(Total):
    type: ClassVar[str] = "l2_norm"
    gradient_needs: ClassVar[tuple[frozenset[int], ...]] = (frozenset({0, OWN_VALUE}),)

    def evaluate(self, inputs: Matrices, output: Tensor) -> None:
        # v = sqrt(sum_ij x_ij^2) (1.46)
        output.fill_(torch.linalg.vector_norm(inputs[0]))

    def compute_partial_gradient(
        self, child: int, inputs: Matrices, output: Tensor, gradient: Tensor, memo: Any, dx: Tensor, accumulate: bool
    ) -> None:
        # dX += dv / v * X (1.47); at X = 0 the norm has no gradient, and 0 is taken
        factor = torch.where(output > 0, gradient / output, torch.zeros_like(gradient))
        put_scaled(dx, inputs[0], factor, accumulate)


@dataclass(frozen=True)
class SquaredNorm(Total):
    type: ClassVar[str] = "squared_norm"
    gradient_needs: ClassVar[tuple[frozenset[int], ...]] = (frozenset({0}),)

    def evaluate(self, inputs: Matrices, output: Tensor) -> None:
        # v = sum_ij x_ij^2, the square of (1.46)
        output.fill_(torch.linalg.vector_norm(inputs[0]).square_())

    def compute_partial_gradient(
        self, child: int, inputs: Matrices, output: Tensor, gradient: Tensor, memo: Any, dx: Tensor, accumulate: bool
    ) -> None:
        # dX += dv * 2 X
        put_scaled(dx, inputs[0], 2 * gradient, accumulate)


def sum_elements(x: Node, *, name: str = "") -> Node:
    """Returns the sum of all elements, over samples too: 1 x 1."""
    return Node(SumElements(), (x,), name)


def l1_norm(x: Node, *, name: str = "") -> Node:
    """Returns the sum of the absolute values of all elements: 1 x 1."""
    return Node(L1Norm(), (x,), name)


def l2_norm(x: Node, *, name: str = "") -> Node:
    """Returns the square root of the sum of all squares (not the sum itself, see `squared_norm`): 1 x 1."""
    return Node(L2Norm(), (x,), name)


def squared_norm(x: Node, *, name: str = "") -> Node:
    """Returns the sum of the squares of all elements, as for weight decay: 1 x 1."""
    return Node(SquaredNorm(), (x,), name)
