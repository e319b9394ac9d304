"""Criteria: numbers that are summed over samples (1.100 to 1.122)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import nll_loss

from nnet3.base.native import classes as native_classes
from nnet3.cn.node import Node
from nnet3.cn.nodes.leaves import constant
from nnet3.cn.nodes.products import diag_times
from nnet3.cn.operation import Matrices, Operation, check_class_indexes, equal_columns, equal_shapes, put, put_scaled
from nnet3.cn.shape import Shape
from nnet3.errors import GradientError, NetworkError, ShapeError

_SUM = 2  # PyTorch's number of the reduction "sum"
_nll_loss_backward = torch.ops.aten.nll_loss_backward.default
_log_softmax_backward = torch._log_softmax_backward_data


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

    def infer(self, operands: Sequence[Shape]) -> Shape:
        equal_columns(self.type, *operands)
        return Shape(1, 1) if operands[0].rows == 1 else super().infer(operands)

    def evaluate(self, inputs: Matrices, output: Tensor) -> None:
        # v = sum_j delta(argmax_i x_ij != argmax_i y_ij) (1.100 to 1.102); one row X holds the numbers of classes
        found = inputs[1].argmax(1)
        if inputs[0].shape[1] == inputs[1].shape[1]:
            output.fill_((inputs[0].argmax(1) != found).sum())
        else:
            wanted = inputs[0][:, 0]
            output.fill_(((wanted >= 0) & (wanted != found)).sum())


@dataclass(frozen=True)
class ClassCrossEntropy(Operation):
    """c: the numbers of the wanted classes, 1 x S, -1 for none; Y: scores, K x S; if given w: a weight of each class.

    The wanted distribution is q_i = (1 - smoothing) delta(i = c) + smoothing / K.
    """

    type: ClassVar[str] = "class_cross_entropy"
    num_operands: ClassVar[int] = 3
    num_optional: ClassVar[int] = 1
    uses_memo: ClassVar[bool] = True
    smoothing: float = 0.0

    def check(self) -> None:
        if not 0 <= self.smoothing < 1:
            raise NetworkError(f"{self.type}: expected a smoothing of at least 0 and less than 1, got {self.smoothing}")

    def infer(self, operands: Sequence[Shape]) -> Shape:
        labels, scores, *weights = operands
        equal_columns(self.type, labels, scores)
        if labels.rows != 1 or (weights and weights[0] != Shape(scores.rows, 1)):
            raise ShapeError(f"{self.type} needs one row of class indexes, and weights of {scores.rows} x 1")
        return Shape(1, 1)

    def num_classes(self, operands: Sequence[Shape]) -> dict[int, int]:
        return {0: operands[1].rows}

    def check_gradient(self, operand: int) -> None:
        if operand == 0:
            raise GradientError(f"{self.type} has no gradient with respect to class indexes")

    def needs_of_gradient(self, operand: int) -> frozenset[int]:
        return (frozenset(), frozenset({2}), frozenset())[operand]

    def evaluate(self, inputs: Matrices, output: Tensor) -> tuple[Tensor, Tensor]:
        # R = log softmax(Y), v = -sum_ij w_i q_ij r_ij (as torch.nn.functional.cross_entropy has it)
        if not self.smoothing and len(inputs) == 2:
            posterior = native_classes.class_cross_entropy(output, inputs[1], inputs[0])
            if posterior is not None:
                return posterior, inputs[0].clone()
        log_posterior, labels = torch.log_softmax(inputs[1], 1), inputs[0].long().view(-1)
        if self.smoothing or len(inputs) > 2:
            check_class_indexes(self.type, inputs[0], inputs[1].shape[1], least=-1)
            terms = self._wanted(labels, log_posterior) * log_posterior
            output.fill_(-(terms if len(inputs) < 3 else terms * inputs[2]).sum())
            return log_posterior, labels
        try:
            value = nll_loss(log_posterior, labels, ignore_index=-1, reduction="sum")
        except IndexError:
            check_class_indexes(self.type, inputs[0], inputs[1].shape[1], least=-1)
            raise
        output.copy_(value)
        return log_posterior, labels

    def compute_partial_gradient(
        self, child: int, inputs: Matrices, output: Tensor, gradient: Tensor, memo: Any, dx: Tensor, accumulate: bool
    ) -> None:
        log_posterior, labels = memo
        if labels.is_floating_point():  # of native code, with posteriors
            native_classes.class_cross_entropy_backward(dx, log_posterior, labels, gradient, accumulate)
            return
        if not self.smoothing and len(inputs) == 2:
            # dy_ij += dv (p_ij - q_ij) where there is a class
            dv = gradient.squeeze()  # also in the place of the sum of weights, by which sums are not divided
            slope = _nll_loss_backward(dv, log_posterior, labels, None, _SUM, -1, dv)
            if accumulate or not dx.is_contiguous():  # the other form writes rows that follow each other
                put(dx, _log_softmax_backward(slope, log_posterior, 1, slope.dtype), accumulate)
            else:
                _log_softmax_backward(slope, log_posterior, 1, slope.dtype, out=dx)
            return
        wanted = self._wanted(labels, log_posterior)
        if child == 2:
            # dw_i -= dv sum_j q_ij r_ij
            put_scaled(dx, (wanted * log_posterior).sum(0, keepdim=True), -gradient, accumulate)
            return
        # dy_ij += dv (p_ij sum_k w_k q_kj - w_i q_ij)
        if len(inputs) > 2:
            wanted.mul_(inputs[2])
        put_scaled(dx, log_posterior.exp().mul_(wanted.sum(1, keepdim=True)).sub_(wanted), gradient, accumulate)

    def _wanted(self, labels: Tensor, like: Tensor) -> Tensor:
        """Returns q, (samples, classes)."""
        labels = labels[:, None]
        is_wanted = (labels >= 0).to(like.dtype)
        wanted = torch.zeros_like(like).scatter_(1, labels.clamp(min=0), is_wanted)
        if not self.smoothing:
            return wanted
        return wanted.mul_(1 - self.smoothing).add_(is_wanted, alpha=self.smoothing / like.shape[1])


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
    """X: the wanted distribution; Y: the judged distribution; columns of X and of Y sum to 1."""

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
    """Returns the slope log Y of X log Y, but 0 where X log Y is 0 though log Y is -inf: there it has none."""
    return torch.where((x == 0) & torch.isneginf(log_y), 0.0, log_y)


def classification_error(x: Node, y: Node, *, name: str = "") -> Node:
    """Returns the number of columns whose largest elements in X and Y stand in different rows. It has no gradient.

    X may be class indexes (`input(name, classes=...)`); indexes of -1 are not counted.
    """
    return Node(ClassificationError(), (x, y), name)


def square_error(x: Node, y: Node, *, name: str = "") -> Node:
    """Half the sum of the squared differences of X and Y, over samples too."""
    return Node(SquareError(), (x, y), name)


def cross_entropy(labels: Node, posterior: Node, *, name: str = "") -> Node:
    """-sum of labels * log(posterior), over samples too; columns of both are distributions."""
    return Node(CrossEntropy(), (labels, posterior), name)


def cross_entropy_with_softmax(
    labels: Node, y: Node, *, weights: Node | None = None, smoothing: float = 0.0, name: str = ""
) -> Node:
    """Returns `cross_entropy(labels, softmax(y))`, computed without overflow and with a simple gradient.

    `labels`: distributions, as many rows as `y` has, or class indexes (`input(name, classes=...)`). With `smoothing`
    that part of each wanted distribution is spread over all classes. `weights`, K x 1, multiply the terms of classes.
    """
    if isinstance(labels, Node) and isinstance(y, Node) and labels.shape.rows == 1 < y.shape.rows:
        operands = (labels, y) if weights is None else (labels, y, weights)
        return Node(ClassCrossEntropy(smoothing), operands, name)
    if smoothing:
        ClassCrossEntropy(smoothing)  # checks it
        labels = (1 - smoothing) * labels + constant(np.full((y.shape.rows, 1), smoothing / y.shape.rows))
    if weights is not None:
        labels = diag_times(weights, labels)
    return Node(CrossEntropyWithSoftmax(), (labels, y), name)
