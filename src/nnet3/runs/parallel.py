"""How the processes of a run work together: what one minibatch means for the model, and when models are made equal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import torch

from nnet3.nnet import Nnet
from nnet3.runs.world import World
from nnet3.train.evaluation import evaluate
from nnet3.train.minibatch import Minibatch
from nnet3.train.objectives import Objective, ObjectiveStats
from nnet3.train.trainer import StepResult


class Parallel(Protocol):
    """The steps of a run. All methods are called by all processes."""

    @property
    def models_agree(self) -> bool:
        """Whether the processes have the same model now."""

    def train_minibatch(self, minibatch: Minibatch, rate: float) -> StepResult:
        """One step of this process; with one process the learning rate is this one."""

    def after_minibatch(self, step: int) -> None:
        """After step number `step`, from 1."""

    def finish(self) -> None:
        """After the last step: all have the same model."""

    def state(self) -> Any:
        """All that the next step depends on, the model included."""

    def load_state(self, state: Any) -> None:
        """Go on from there."""

    def sum_of(self, numbers: Sequence[float]) -> list[float]:
        """Of what steps gave in each process: over all processes, but what is of a joined minibatch counts once."""


def sum_over_processes(world: World, numbers: Sequence[float]) -> list[float]:
    """Of each number."""
    total = torch.tensor(numbers, dtype=torch.float64)
    world.sum_([total])
    return total.tolist()


def evaluate_all_outputs(nnet: Nnet, objective: Objective, minibatches: Iterable[Minibatch]) -> ObjectiveStats:
    """The sum over output nodes, in test mode."""
    total = ObjectiveStats()
    for stats in evaluate(nnet, minibatches, objective).values():
        total.add(stats)
    return total
