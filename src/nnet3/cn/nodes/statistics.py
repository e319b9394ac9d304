"""Statistics of a whole data set, computed once before training (1.123 to 1.130)."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from nnet3.cn.node import Node, StoredNode
from nnet3.cn.operation import Matrices, Operation
from nnet3.cn.shape import Shape
from nnet3.errors import NetworkError, ShapeError

if TYPE_CHECKING:
    from typing_extensions import Self


class Statistic(Operation):
    """Base: a column of numbers gathered from all samples of a data set. There is no gradient."""

    has_gradient: ClassVar[bool] = False

    def infer(self, operands: Sequence[Shape]) -> Shape:
        if not operands[0].has_samples:
            raise ShapeError(f"{self.type} needs an operand with samples")
        return Shape(operands[0].rows, 1)

    @abc.abstractmethod
    def finish(self, mean: Tensor, mean_of_squares: Tensor) -> Tensor:
        """Returns the statistic, (rows,), from the means of x and x * x."""


@dataclass(frozen=True)
class Mean(Statistic):
    type: ClassVar[str] = "mean"

    def finish(self, mean: Tensor, mean_of_squares: Tensor) -> Tensor:
        return mean


@dataclass(frozen=True)
class InvStdDev(Statistic):
    """`floor`: the least standard deviation, to give a constant row a finite inverse."""

    type: ClassVar[str] = "inv_std_dev"
    floor: float = 1e-10

    def check(self) -> None:
        if self.floor <= 0:
            raise NetworkError(f"inv_std_dev: expected a floor greater than 0, got {self.floor}")

    def finish(self, mean: Tensor, mean_of_squares: Tensor) -> Tensor:
        # v = 1 / (omega - v * v)^(1/2) (1.128, 1.129)
        return 1 / (mean_of_squares - mean * mean).clamp_(min=0).sqrt_().clamp_(min=self.floor)


class StatisticNode(StoredNode):
    """A statistic. `is_computed` marks that a data set has been gone through; the value then stays."""

    operation: Statistic

    def __init__(self, operation: Statistic, operands: Sequence[Node] = (), name: str = ""):
        super().__init__(operation, operands, name)
        self.is_computed = False
        self.forget()

    def take_over(self, other: Self, device: torch.device | None) -> None:
        super().take_over(other, device)
        self.is_computed = other.is_computed

    def forget(self) -> None:
        """Begins again with an empty data set."""
        self.is_computed = False
        self._count = 0
        self._mean = torch.zeros(self.shape.rows, dtype=torch.float64)
        self._mean_of_squares = torch.zeros(self.shape.rows, dtype=torch.float64)

    def accept(self, minibatch: Tensor) -> None:
        """Adds the samples of a minibatch, (samples, rows)."""
        # k += X.cols (1.123, 1.125); v = 1/k X 1 + (k - X.cols)/k v (1.124, 1.126); omega likewise of X * X (1.127)
        if len(minibatch) == 0:
            return
        samples = minibatch.detach().to("cpu", torch.float64)
        self._count += len(samples)
        old = (self._count - len(samples)) / self._count
        self._mean = samples.sum(0) / self._count + old * self._mean
        self._mean_of_squares = (samples * samples).sum(0) / self._count + old * self._mean_of_squares

    def finish(self) -> None:
        """Computes the value at the end of the data set; later data sets do not change it."""
        if self._count == 0:
            raise NetworkError(f"the data set for the statistic '{self.formula}' has no samples")
        self.memory.copy_(self.operation.finish(self._mean, self._mean_of_squares)[None, :])
        self.is_computed = True


@dataclass(frozen=True)
class PerDimMeanVarNorm(Operation):
    type: ClassVar[str] = "per_dim_mean_var_norm"
    num_operands: ClassVar[int] = 3
    has_gradient: ClassVar[bool] = False
    evaluates_in_place: ClassVar[bool] = True

    def infer(self, operands: Sequence[Shape]) -> Shape:
        x, mean, inverse = operands
        if mean != Shape(x.rows, 1) or inverse != mean:
            raise ShapeError(f"{self.type} needs a mean and an inverse standard deviation of {x.rows} x 1")
        return x

    def evaluate(self, inputs: Matrices, output: Tensor) -> None:
        # V = (X - m) * s, with m and s expanded (1.130)
        torch.sub(inputs[0], inputs[1], out=output)
        output.mul_(inputs[2])


def mean(x: Node, *, name: str = "") -> StatisticNode:
    """Returns the mean of each row over all samples of the data set given to `Network.compute_statistics`: D x 1."""
    return StatisticNode(Mean(), (x,), name)


def inv_std_dev(x: Node, *, floor: float = 1e-10, name: str = "") -> StatisticNode:
    """Returns the inverse standard deviation of each row over the data set, D x 1; deviations at least `floor`."""
    return StatisticNode(InvStdDev(floor), (x,), name)


def per_dim_mean_var_norm(x: Node, mean: Node, inverse: Node, *, name: str = "") -> Node:
    """Returns (X - m) * s for each sample, with mean m and inverse standard deviation s, D x 1. It has no gradient."""
    return Node(PerDimMeanVarNorm(), (x, mean, inverse), name)
