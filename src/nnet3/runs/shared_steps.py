"""Every minibatch is one step of all processes: their rows together make one minibatch. Also: a process alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nnet3.nnet import Nnet
from nnet3.options import TrainerOptions
from nnet3.runs.network_state import load_network_state, network_state
from nnet3.runs.world import World
from nnet3.train.minibatch import Minibatch
from nnet3.train.objectives import Objective
from nnet3.train.trainer import StepResult, Trainer


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
