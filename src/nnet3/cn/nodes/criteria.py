"""Criteria: numbers that are summed over samples (1.100 to 1.122)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from nnet3.cn.node import Node
from nnet3.cn.operation import Matrices, Operation, equal_columns, equal_shapes, put_scaled
from nnet3.cn.shape import Shape


class Criterion(Operation):
    """Base: one number from all columns of two operands of equal shape."""

    num_operands: ClassVar[int] = 2

    def infer(self, operands: Sequence[Shape]) -> Shape:
        equal_shapes(self.type, *operands)
        return Shape(1, 1)


@dataclass(frozen=True)
class ClassificationError(Criterion):
    type: ClassVar[str] = "classification_error"
    has_gradient: ClassVar[bool] = False
    gradient_needs: ClassVar[tuple[frozenset[int], ...]] = (frozenset(), frozenset())

    def infer(self, operands: Sequence[Shape]) -> Shape:
        equal_columns(self.type, *operands)
        return super().infer(operands)

    def evaluate(self, inputs: Matrices, output: Tensor) -> None:
        # v = sum_j delta(argmax_i x_ij != argmax_i y_ij) (1.100 to 1.102)
        output.fill_((inputs[0].argmax(1) != inputs[1].argmax(1)).sum())


@dataclass(frozen=True)
class SquareError(Criterion):
    type: ClassVar[str] = "square_error"
    gradient_needs: ClassVar[tuple[frozenset[int], ...]] = (frozenset({0, 1}),) * 2

    def evaluate(self, inputs: Matrices, output: Tensor) -> None:
        # v = 1/2 Tr((X - Y)(X - Y)^T) = 1/2 sum_ij (x_ij - y_ij)^2 (1.103)
        difference = inputs[0] - inputs[1]
        output.fill_(0.5 * difference.mul_(difference).sum())

    def compute_partial_gradient(
        self, child: int, inputs: Matrices, output: Tensor, gradient: Tensor, memo: Any, dx: Tensor, accumulate: bool
    ) -> None:
        # dX += dv (X - Y) (1.104), dY += dv (Y - X) (1.105)
        put_scaled(dx, inputs[child] - inputs[1 - child], gradient, accumulate)


@dataclass(frozen=True)
class CrossEntropy(Criterion):
    """X: the wanted distribution; Y: the one that is judged; both with columns that sum to 1."""

    type: ClassVar[str] = "cross_entropy"
    gradient_needs: ClassVar[tuple[frozenset[int], ...]] = (frozenset({0, 1}),) * 2

    def evaluate(self, inputs: Matrices, output: Tensor) -> None:
        # v = -vec(X) . vec(log Y) (1.108, 1.109); a class that X gives no weight adds 0 whatever Y is
        output.fill_(-torch.xlogy(inputs[0], inputs[1]).sum())

    def compute_partial_gradient(
        self, child: int, inputs: Matrices, output: Tensor, gradient: Tensor, memo: Any, dx: Tensor, accumulate: bool
    ) -> None:
        # dX -= dv log Y (1.110), dY -= dv X / Y (1.111)
        x, y = inputs
        slope = finite_slope(x, y.log()) if child == 0 else torch.where(x == 0, 0.0, x / y)
        put_scaled(dx, slope, -gradient, accumulate)


@dataclass(frozen=True)
class CrossEntropyWithSoftmax(Criterion):
    """X: the wanted distribution; Y: the values whose softmax is judged."""

    type: ClassVar[str] = "cross_entropy_with_softmax"
    gradient_needs: ClassVar[tuple[frozenset[int], ...]] = (frozenset({0}),) * 2
    uses_memo: ClassVar[bool] = True

    def evaluate(self, inputs: Matrices, output: Tensor) -> Tensor:
        # P = softmax(Y), R = log P, v = -vec(X) . vec(R) (1.116 to 1.118, where the minus is missing); a class that X
        # gives no weight adds 0 even where its score is -inf
        log_posterior = torch.log_softmax(inputs[1], 1)
        output.fill_(-torch.where(inputs[0] == 0, 0.0, inputs[0] * log_posterior).sum())
        return log_posterior

    def compute_partial_gradient(
        self, child: int, inputs: Matrices, output: Tensor, gradient: Tensor, memo: Any, dx: Tensor, accumulate: bool
    ) -> None:
        # dX -= dv R (1.119); dY += dv (P sum_i x_ij - X), which is (1.120) where the columns of X sum to 1
        x = inputs[0]
        if child == 0:
            put_scaled(dx, finite_slope(x, memo), -gradient, accumulate)
        else:
            weight = x.sum(1, keepdim=True)  # where it is 0 the scores do not matter, whatever they are
            put_scaled(dx, torch.where(weight == 0, 0.0, memo.exp() * weight) - x, gradient, accumulate)


def finite_slope(x: Tensor, log_y: Tensor) -> Tensor:
    """The slope log Y of X log Y, but 0 where X log Y is 0 though log Y is -inf: there it has none."""
    return torch.where((x == 0) & torch.isneginf(log_y), 0.0, log_y)


def classification_error(x: Node, y: Node, *, name: str = "") -> Node:
    """The number of columns in which the largest elements of X and Y stand in different rows. It has no gradient."""
    return Node(ClassificationError(), (x, y), name)


def square_error(x: Node, y: Node, *, name: str = "") -> Node:
    """Half the sum of the squared differences of X and Y, over samples too."""
    return Node(SquareError(), (x, y), name)


def cross_entropy(labels: Node, posterior: Node, *, name: str = "") -> Node:
    """-sum of labels * log(posterior), over samples too; columns of both are distributions."""
    return Node(CrossEntropy(), (labels, posterior), name)


def cross_entropy_with_softmax(labels: Node, y: Node, *, name: str = "") -> Node:
    """`cross_entropy(labels, softmax(y))`, computed without overflow and with a simple gradient."""
    return Node(CrossEntropyWithSoftmax(), (labels, y), name)
