"""How the processes of a run work together: what one minibatch means for the model, and when models are made equal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from nnet3.errors import TrainingError
from nnet3.nnet import Nnet
from nnet3.options import TrainerOptions
from nnet3.runs.world import World
from nnet3.train.evaluation import evaluate
from nnet3.train.minibatch import Minibatch
from nnet3.train.objectives import Objective, ObjectiveStats
from nnet3.train.running_state import parameters, statistics
from nnet3.train.trainer import StepResult, Trainer


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


class SharedSteps:
    """Each process has the same model at any time."""

    models_agree = True

    def __init__(self, nnet: Nnet, options: TrainerOptions, objective: Objective, world: World):
        self._nnet = nnet
        self._trainer = Trainer(nnet, options, objective, reduction=world if world.size > 1 else None)

    def train_minibatch(self, minibatch: Minibatch, rate: float) -> StepResult:
        return self._trainer.train_minibatch(minibatch, rate)

    def after_minibatch(self, step: int) -> None:
        """Nothing: the models are equal."""

    def finish(self) -> None:
        """Nothing: the models are equal."""

    def state(self) -> Any:
        return {"network": network_state(self._nnet), "trainer": self._trainer.state()}

    def load_state(self, state: Any) -> None:
        load_network_state(self._nnet, state["network"])
        self._trainer.load_state(state["trainer"])

    def sum_of(self, numbers: Sequence[float]) -> list[float]:
        """As they are: a step is one of all processes, on the rows of all of them."""
        return list(numbers)


def network_state(nnet: Nnet) -> dict[str, dict[str, Tensor]]:
    """Copies of all parameters and statistics, by name."""
    return {
        "parameters": {name: tensor.clone() for name, tensor in parameters(nnet).items()},
        "statistics": {name: statistic.copy() for name, statistic in statistics(nnet).items()},
    }


@torch.no_grad()
def load_network_state(nnet: Nnet, state: dict[str, dict[str, Tensor]]) -> None:
    """Go back to there. Parameters stay the same tensors. Raises TrainingError for the state of another network."""
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
