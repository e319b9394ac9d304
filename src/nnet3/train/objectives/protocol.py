"""What the trainer asks of an objective, and what it is told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import Protocol

from torch import Tensor

from nnet3.components import RandomSource
from nnet3.train.minibatch import Target


@dataclass
class ObjectiveStats:
    """Sums over rows; averages are per unit of weight."""

    objective: float = 0.0
    auxiliary: float = 0.0  # terms that are maximised too but are no part of what is compared, such as an l2 term
    weight: float = 0.0
    correct: float = 0.0  # weight of the rows whose largest output is where the target has its largest value
    counted: float = 0.0  # weight of the rows that could be correct

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
    def accuracy(self) -> float:
        return self.correct / self.counted if self.counted else 0.0

    def numbers(self) -> tuple[float, ...]:
        """All fields, in order: `ObjectiveStats(*numbers)` gives the same."""
        return astuple(self)


@dataclass(frozen=True)
class OutputResult:
    """What an objective says of one output node.

    `deriv` (rows, columns) is the derivative by the output of something to be *maximised*, summed over rows: it may be
    the derivative of more than `stats` tells. None if none was asked for.
    """

    name: str
    stats: ObjectiveStats
    deriv: Tensor | None


class Objective(Protocol):
    """A function of the outputs of a network and a target. It must not keep anything of one call for the next."""

    def outputs(self, target: Target) -> tuple[str, ...]:
        """The output nodes it looks at, that of the target first; all are computed at the target's indexes."""

    def evaluate(
        self, target: Target, outputs: Sequence[Tensor], *, rng: RandomSource, with_derivs: bool
    ) -> Sequence[OutputResult]:
        """One result for each of `outputs`, in order; these are (rows, columns), rows as in the target's indexes.

        All random numbers must come from `rng`: a step that is made twice sees the same ones. Raises TrainingError for
        a target that does not fit; what is not finite is given back as it is.
        """
