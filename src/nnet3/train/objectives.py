"""Objective functions and their derivatives (docs/formulas.md). All are maximised and summed over rows."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from nnet3.errors import TrainingError


@dataclass
class ObjectiveStats:
    """Sums over rows; `average` and `accuracy` are per unit of weight."""

    objective: float = 0.0
    weight: float = 0.0
    correct: float = 0.0
    counted: float = 0.0

    def add(self, other: ObjectiveStats) -> None:
        self.objective += other.objective
        self.weight += other.weight
        self.correct += other.correct
        self.counted += other.counted

    @property
    def average(self) -> float:
        return self.objective / self.weight if self.weight else 0.0

    @property
    def accuracy(self) -> float:
        return self.correct / self.counted if self.counted else 0.0


def objective(kind: str, output: Tensor, supervision: Tensor) -> tuple[ObjectiveStats, Tensor]:
    """Statistics and dF/dy for an output y and its supervision p, both (rows, columns).

    linear: F = sum y p (with a log-softmax output this is cross-entropy), derivative p.
    quadratic: F = -1/2 sum (p - y)^2, derivative p - y.
    """
    if output.shape != supervision.shape:
        raise TrainingError(f"the output is {tuple(output.shape)}, its supervision {tuple(supervision.shape)}")
    supervision = supervision.to(output)
    if kind == "linear":
        value, weight, deriv = float((output * supervision).sum()), float(supervision.sum()), supervision
    else:
        deriv = supervision - output
        value, weight = -0.5 * float(deriv.square().sum()), float(output.shape[0])
    row_weight = supervision.sum(1)
    right = (output.argmax(1) == supervision.argmax(1)) & (row_weight != 0)
    return ObjectiveStats(value, weight, float(row_weight[right].sum()), float(row_weight.sum())), deriv
