"""Objectives: what is to be maximised (docs/training.md tells how to write another)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple, dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from nnet3.base.kaldi_io.sparse import SparseMatrix
from nnet3.errors import TrainingError
from nnet3.model.components.random_source import RandomSource
from nnet3.model.nnet import Nnet
from nnet3.model.structure.nodes import DescriptorNode
from nnet3.training.train.minibatch import MatrixTarget, Target


@dataclass
class ObjectiveStats:
    """Sums over rows; averages are per unit of weight."""

    objective: float = 0.0
    auxiliary: float = 0.0  # terms that are maximised too but are no part of what is compared, such as an l2 term
    weight: float = 0.0
    correct: float = 0.0  # weight of the rows whose largest output is where the target has its largest value
    counted: float = 0.0  # weight of the rows that could be correct
    num_den_count: float = 0.0  # of a lattice: the sum of the sizes of all elements of the derivative

    def add(self, other: ObjectiveStats) -> None:
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)

    @property
    def average(self) -> float:
        return self.objective / self.weight if self.weight else 0.0

    @property
    def average_auxiliary(self) -> float:
        return self.auxiliary / self.weight if self.weight else 0.0

    @property
    def terms(self) -> str:
        """The average alone, or with an auxiliary term: average, auxiliary term, sum."""
        if self.auxiliary == 0.0:
            return f"{self.average:g}"
        return f"{self.average:g} + {self.average_auxiliary:g} = {self.average + self.average_auxiliary:g}"

    @property
    def accuracy(self) -> float:
        return self.correct / self.counted if self.counted else 0.0

    def numbers(self) -> tuple[float, ...]:
        """Returns all fields, in order: `ObjectiveStats(*numbers)` gives the same."""
        return astuple(self)


def total_stats(stats: Iterable[ObjectiveStats]) -> ObjectiveStats:
    """Returns the sums over all of them."""
    total = ObjectiveStats()
    for own in stats:
        total.add(own)
    return total


@dataclass(frozen=True)
class OutputResult:
    """The objective of one output node, and its derivative.

    `deriv` (rows, columns) is the derivative by the output of something to be *maximised*, summed over rows. That may
    be more than `stats` tells. None if none was asked for.
    """

    name: str
    stats: ObjectiveStats
    deriv: Tensor | None


class Objective(Protocol):
    """A function of the outputs of a network and a target. It must keep nothing from one call to the next."""

    def outputs(self, target: Target) -> tuple[str, ...]:
        """Returns the output nodes it looks at, the target's first; all are computed at the target's indexes."""

    def evaluate(
        self, target: Target, outputs: Sequence[Tensor], *, rng: RandomSource, with_derivs: bool
    ) -> Sequence[OutputResult]:
        """Returns the results for `outputs`, in order. An output is (rows, columns), with the target's indexes.

        All random numbers must come from `rng`, so that a repeated step sees the numbers of the first. Raises
        TrainingError for a target that does not fit. Values that are not finite are given back unchanged.
        """


class _OneOutput:
    """An objective of the target's output alone."""

    def outputs(self, target: Target) -> tuple[str, ...]:
        return (target.name,)


class LinearObjective(_OneOutput):
    """F = sum y p for an output y and its target p; weight: sum p; derivative p. A sparse target stays sparse in F.

    With log-probabilities as outputs this is (minus) the cross-entropy.
    """

    def evaluate(
        self, target: Target, outputs: Sequence[Tensor], *, rng: RandomSource, with_derivs: bool
    ) -> Sequence[OutputResult]:
        (y,) = outputs
        matrix = matrix_target(target, y).matrix
        if isinstance(matrix, SparseMatrix):
            rows, cols, values = _elements(matrix, y)
            stats = ObjectiveStats(float(y[rows, cols] @ values), weight=float(values.sum()))
            deriv = y.new_zeros(y.shape).index_put_((rows, cols), values) if with_derivs else None
        else:
            p = matrix.to(y)
            stats = ObjectiveStats(float((y * p).sum()), weight=float(p.sum()))
            deriv = p if with_derivs else None
        return [OutputResult(target.name, stats, deriv)]


class QuadraticObjective(_OneOutput):
    """F = -1/2 sum (p - y)^2 for an output y and its target p; weight: the number of rows; derivative p - y."""

    def evaluate(
        self, target: Target, outputs: Sequence[Tensor], *, rng: RandomSource, with_derivs: bool
    ) -> Sequence[OutputResult]:
        (y,) = outputs
        matrix = matrix_target(target, y).matrix
        if isinstance(matrix, SparseMatrix):
            rows, cols, values = _elements(matrix, y)
            difference = (-y).index_put_((rows, cols), values, accumulate=True)
        else:
            difference = matrix.to(y) - y
        stats = ObjectiveStats(-0.5 * float(difference.square().sum()), weight=float(len(y)))
        return [OutputResult(target.name, stats, difference if with_derivs else None)]


_BY_NAME: dict[str, Objective] = {"linear": LinearObjective(), "quadratic": QuadraticObjective()}


class ObjectiveByNode(_OneOutput):
    """Linear or quadratic, as the `objective=` of the target's output node says."""

    def __init__(self, nnet: Nnet) -> None:
        self.nnet = nnet

    def evaluate(
        self, target: Target, outputs: Sequence[Tensor], *, rng: RandomSource, with_derivs: bool
    ) -> Sequence[OutputResult]:
        own = _BY_NAME[objective_name(self.nnet, target.name)]
        return own.evaluate(target, outputs, rng=rng, with_derivs=with_derivs)


class TorchLoss(_OneOutput):
    """F = -loss(output, target), where `loss` gives a scalar that PyTorch can differentiate by the output.

    The loss sees the output (rows, columns), and the target: a `MatrixTarget` as a dense tensor, any other unchanged.
    Learning rates are meant for sums over rows: use losses with `reduction="sum"`; the weight is the number of rows.
    """

    def __init__(self, loss: Callable[[Tensor, Any], Tensor]) -> None:
        self.loss = loss

    def evaluate(
        self, target: Target, outputs: Sequence[Tensor], *, rng: RandomSource, with_derivs: bool
    ) -> Sequence[OutputResult]:
        (y,) = outputs
        is_matrix = isinstance(target, MatrixTarget)
        with torch.inference_mode(False), torch.set_grad_enabled(with_derivs):
            variable = y.detach().clone().requires_grad_(with_derivs)
            wanted: Any = matrix_target(target, y).dense().to(y).clone() if is_matrix else target
            value = self.loss(variable, wanted)
            if value.numel() != 1:
                raise TrainingError(f"the loss of output '{target.name}' must be one number, got {tuple(value.shape)}")
            deriv = None
            if with_derivs:
                (deriv,) = torch.autograd.grad(-value.reshape(()), variable)
        return [OutputResult(target.name, ObjectiveStats(-float(value.detach()), weight=float(len(y))), deriv)]


def objective_name(nnet: Nnet, output: str) -> str:
    """Returns `linear` or `quadratic`, as the line of the output node says. Raises TrainingError if it is no output."""
    node = nnet.node(output)
    if not isinstance(node, DescriptorNode) or not node.is_output:
        raise TrainingError(f"'{output}' is no output node: the network has {', '.join(nnet.output_names)}")
    return node.objective or "linear"


def matrix_target(target: Target, output: Tensor) -> MatrixTarget:
    """Returns the target, checked. Raises TrainingError if it is no matrix, or not of the size of the output."""
    if not isinstance(target, MatrixTarget):
        raise TrainingError(f"the objective of output '{target.name}' wants a matrix, got a {type(target).__name__}")
    if tuple(output.shape) != tuple(target.matrix.shape):
        sizes = f"{tuple(output.shape)}, its target {tuple(target.matrix.shape)}"
        raise TrainingError(f"output '{target.name}' is {sizes}")
    return target


def _elements(matrix: SparseMatrix, like: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Returns rows, columns and values of the elements of a sparse matrix, each (elements,), where `like` lies."""
    rows = torch.from_numpy(matrix.row_of_element()).to(like.device)
    cols = torch.from_numpy(matrix.ids).to(like.device, torch.int64)
    return rows, cols, torch.from_numpy(matrix.values).to(like)
