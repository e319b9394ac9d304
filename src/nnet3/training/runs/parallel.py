"""Joins the processes of a run: the meaning of a minibatch for the model, and when models are made equal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch

from nnet3.base.options.training import TrainerOptions
from nnet3.training.runs.process_group import ProcessGroup
from nnet3.training.train.step_result import StepResult
from nnet3.training.train.trainer import MinibatchTrainer, Trainer


class Parallel(Protocol):
    """Takes the steps of a run. All processes call all methods."""

    @property
    def models_agree(self) -> bool:
        """True if all processes have the same model now."""

    @property
    def jobs(self) -> int:
        """The factor of learning rates now: the number of models that are averaged, or 1."""

    def begin_minibatch(self, step: int, done: float) -> bool:
        """Called before each step, after `step` others, when the part `done` of training is over.

        Returns true if a round begins.
        """

    def train_minibatch(self, minibatch: Any, rate: float) -> StepResult:
        """Takes one step of this process. `rate` is the learning rate for a single process."""

    def after_minibatch(self, step: int) -> None:
        """Called after step number `step`, from 1; by default nothing is done."""
        return

    def finish(self) -> None:
        """Called after the last step; makes all models equal."""
        return

    def state(self) -> Any:
        """Returns all that the next step depends on, the model included."""

    def load_state(self, state: Any) -> None:
        """Goes on where `state` was made."""

    def sum_of(self, numbers: Sequence[float]) -> list[float]:
        """Sums each step's statistics over all processes; a minibatch shared by processes is counted once."""


@dataclass(frozen=True)
class TrainingRounds:
    """Rounds of `size` minibatches. `halved`: the first one has twice as many, of half the size.

    Then max-param-change is divided by the square root of 2, since there are twice as many steps.
    """

    size: int
    halved: bool = False

    @property
    def first(self) -> int:
        """The number of minibatches of the first round."""
        return 2 * self.size if self.halved else self.size

    def begins_at(self, step: int) -> bool:
        """Returns true if a round begins after `step` minibatches."""
        return step == 0 or (step >= self.first and (step - self.first) % self.size == 0)

    def options(self, options: TrainerOptions, *, is_first: bool) -> TrainerOptions:
        """Returns the options of a trainer in the first round, or in a later one."""
        if not (self.halved and is_first):
            return options
        return replace(options, max_param_change=options.max_param_change / math.sqrt(2))


def sum_over_processes(group: ProcessGroup, numbers: Sequence[float]) -> list[float]:
    """Returns the sum of each number over all processes."""
    total = torch.tensor(numbers, dtype=torch.float64)
    group.sum_([total])
    return total.tolist()


class SharedSteps(Parallel):
    """Makes every minibatch one step of all processes: the rows of all are one minibatch. Also for a process alone.

    All processes have equal models at any time. The trainer adds up over processes.
    """

    models_agree = True
    jobs = 1

    def __init__(self, trainer: MinibatchTrainer[Any], rounds: TrainingRounds | None = None):
        """`rounds`: by default every minibatch is a round."""
        self._trainer, self._rounds = trainer, rounds or TrainingRounds(1)

    def begin_minibatch(self, step: int, done: float) -> bool:
        return self._rounds.begins_at(step)

    def train_minibatch(self, minibatch: Any, rate: float) -> StepResult:
        return self._trainer.train_minibatch(minibatch, rate)

    def state(self) -> Any:
        return {"network": self._trainer.contents(), "trainer": self._trainer.state()}

    def load_state(self, state: Any) -> None:
        self._trainer.load_contents(state["network"])
        self._trainer.load_state(state["trainer"])

    def sum_of(self, numbers: Sequence[float]) -> list[float]:
        """Returns them as they are: a step counts the rows of all processes already."""
        return list(numbers)


class LimitedSteps(SharedSteps):
    """The same for networks of components, whose steps are smaller in the first round if minibatches are halved."""

    def __init__(self, trainer: Trainer, rounds: TrainingRounds):
        super().__init__(trainer, rounds)
        self._changed, self._options = trainer, trainer.options

    def begin_minibatch(self, step: int, done: float) -> bool:
        self._changed.options = self._rounds.options(self._options, is_first=step < self._rounds.first)
        return super().begin_minibatch(step, done)
