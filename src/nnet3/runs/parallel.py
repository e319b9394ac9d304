"""Joins the processes of a run: the meaning of a minibatch for the model, and when models are made equal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from nnet3.errors import TrainingError
from nnet3.nnet import Nnet
from nnet3.options import TrainerOptions
from nnet3.runs.world import World
from nnet3.train.minibatch import Minibatch
from nnet3.train.objectives import Objective
from nnet3.train.running_state import parameters, statistics
from nnet3.train.trainer import StepResult, Trainer


class Parallel(Protocol):
    """Takes the steps of a run. All processes call all methods."""

    @property
    def models_agree(self) -> bool:
        """True if all processes have the same model now."""

    @property
    def jobs(self) -> int:
        """By how much learning rates are multiplied now: the number of models that are averaged, or 1."""

    def begin_minibatch(self, done: float) -> None:
        """Called before each step, when the part `done` of training is over; by default nothing is done."""
        return

    def train_minibatch(self, minibatch: Minibatch, rate: float) -> StepResult:
        """Takes one step of this process. `rate` is the learning rate that one process alone would have."""

    def after_minibatch(self, step: int) -> None:
        """Called after step number `step`, from 1; by default nothing is done."""
        return

    def finish(self) -> None:
        """Called after the last step; makes all models the same if they are not."""
        return

    def state(self) -> Any:
        """Returns all that the next step depends on, the model included."""

    def load_state(self, state: Any) -> None:
        """Goes on where `state` was made."""

    def sum_of(self, numbers: Sequence[float]) -> list[float]:
        """Sums each step's statistics over all processes; a minibatch that the processes share is counted once."""


def sum_over_processes(world: World, numbers: Sequence[float]) -> list[float]:
    """Returns the sum of each number over all processes."""
    total = torch.tensor(numbers, dtype=torch.float64)
    world.sum_([total])
    return total.tolist()


class SharedSteps(Parallel):
    """Makes every minibatch one step of all processes: their rows together are one minibatch. Also for a process alone.

    Each process has the same model at any time.
    """

    models_agree = True
    jobs = 1

    def __init__(self, nnet: Nnet, options: TrainerOptions, objective: Objective, world: World):
        self._nnet = nnet
        self._trainer = Trainer(nnet, options, objective, reduction=world if world.size > 1 else None)

    def train_minibatch(self, minibatch: Minibatch, rate: float) -> StepResult:
        return self._trainer.train_minibatch(minibatch, rate)

    def state(self) -> Any:
        return {"network": network_state(self._nnet), "trainer": self._trainer.state()}

    def load_state(self, state: Any) -> None:
        load_network_state(self._nnet, state["network"])
        self._trainer.load_state(state["trainer"])

    def sum_of(self, numbers: Sequence[float]) -> list[float]:
        """Returns them as they are: a step counts the rows of all processes already."""
        return list(numbers)


def network_state(nnet: Nnet) -> dict[str, dict[str, Tensor]]:
    """Returns copies of all parameters and statistics, by name; a model file would round statistics."""
    return {
        "parameters": {name: tensor.clone() for name, tensor in parameters(nnet).items()},
        "statistics": {name: statistic.copy() for name, statistic in statistics(nnet).items()},
    }


@torch.no_grad()
def load_network_state(nnet: Nnet, state: dict[str, dict[str, Tensor]]) -> None:
    """Goes back to that state; parameters stay the same tensors. Raises TrainingError for another network's."""
    shapes = {name: tuple(tensor.shape) for name, tensor in parameters(nnet).items()}
    theirs = {name: tuple(tensor.shape) for name, tensor in state["parameters"].items()}
    if shapes != theirs or statistics(nnet).keys() != state["statistics"].keys():
        different = [name for name in {*shapes, *theirs} if shapes.get(name) != theirs.get(name)]
        what = f"parameters '{min(different)}'" if different else "statistics"
        raise TrainingError(f"the checkpoint is of another network: it differs in {what}")
    for name, parameter in parameters(nnet).items():
        parameter.copy_(state["parameters"][name])
    nnet.zero_stats()  # what is derived from old statistics is forgotten too
    for name, statistic in statistics(nnet).items():
        statistic.set(state["statistics"][name])
