"""Trains a model in each process, as Kaldi's scripts do; now and then all go on from the average."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from nnet3.nnet import Nnet
from nnet3.options import TrainerOptions
from nnet3.runs.parallel import load_network_state, network_state, sum_over_processes
from nnet3.runs.world import World
from nnet3.train.minibatch import Minibatch
from nnet3.train.objectives import Objective, ObjectiveStats
from nnet3.train.running_state import statistics
from nnet3.train.trainer import StepResult, Trainer

_WORSE_AND_STILL_GOOD = 1.0  # how far below the best a process's objective may be, for its model to count

_WORST = -1e300  # of a process that has seen nothing, or nothing finite


class AveragedModels:
    """Trains in rounds of so many minibatches, each with a new trainer.

    With J processes learning rates are J times as large and l2 regularisation counts 1/J, so that the average moves as
    far as one model would. After the first round, where models have little in common yet, the best one is kept instead.
    Later on models much worse than the best do not count.
    """

    def __init__(self, nnet: Nnet, options: TrainerOptions, objective: Objective, world: World, round_size: int):
        self._nnet, self._objective, self._world, self._round_size = nnet, objective, world, round_size
        factor = options.l2_regularize_factor / world.size
        self._options = replace(options, l2_regularize_factor=factor)
        self._round, self._steps, self._stats = 0, 0, ObjectiveStats()
        self._trainer: Trainer | None = None  # between rounds there is none: a new one forgets statistics

    @property
    def models_agree(self) -> bool:
        return self._steps == 0

    def train_minibatch(self, minibatch: Minibatch, rate: float) -> StepResult:
        if self._trainer is None:
            self._trainer = self._new_trainer()
        result = self._trainer.train_minibatch(minibatch, rate * self._world.size)
        self._steps += 1
        self._stats.add(result.total_of(target.name for target in minibatch.targets))
        return result

    def after_minibatch(self, step: int) -> None:
        if self._steps == self._round_size:
            self._end_round()

    def finish(self) -> None:
        if self._steps:
            self._end_round()

    def state(self) -> Any:
        own = {"round": self._round, "steps": self._steps, "stats": self._stats.numbers()}
        trainer = None if self._trainer is None else self._trainer.state()
        return {"network": network_state(self._nnet), "trainer": trainer, **own}

    def load_state(self, state: Any) -> None:
        self._round = state["round"]
        self._trainer = None if state["trainer"] is None else self._new_trainer()
        load_network_state(self._nnet, state["network"])
        if self._trainer is not None:
            self._trainer.load_state(state["trainer"])
        self._steps, self._stats = state["steps"], ObjectiveStats(*state["stats"])

    def sum_of(self, numbers: Sequence[float]) -> list[float]:
        return sum_over_processes(self._world, numbers)

    # ---- rounds ----

    def _new_trainer(self) -> Trainer:
        seed = self._options.seed + 1_000 * self._round + self._world.rank
        return Trainer(self._nnet, replace(self._options, seed=seed), self._objective)

    def _end_round(self) -> None:
        self._average(self._share())
        self._round, self._steps, self._stats, self._trainer = self._round + 1, 0, ObjectiveStats(), None

    def _share(self) -> float:
        """Returns the weight of this process's model in the average."""
        own = (self._stats.objective + self._stats.auxiliary) / self._stats.weight if self._stats.weight else _WORST
        all_own = torch.zeros(self._world.size, dtype=torch.float64)
        all_own[self._world.rank] = own if math.isfinite(own) else _WORST
        self._world.sum_([all_own])
        if self._round == 0:
            return float(int(all_own.argmax()) == self._world.rank)
        accepted = all_own >= all_own.max() - _WORSE_AND_STILL_GOOD
        return float(accepted[self._world.rank]) / int(accepted.sum())

    @torch.no_grad()
    def _average(self, share: float) -> None:
        """Replace parameters and statistics of all models by their sum, each times its share."""
        parameters = self._nnet.flat_parameters()
        found = statistics(self._nnet)
        values = self._whole([statistic.copy() for statistic in found.values()])
        for tensor in (*parameters, *values):
            tensor.zero_() if share == 0 else tensor.mul_(share)  # times zero would keep a NaN
        self._world.sum_(parameters)
        self._world.sum_(values)
        self._nnet.zero_stats()  # what is derived from old statistics is forgotten too
        for statistic, value in zip(found.values(), values, strict=True):
            statistic.set(value)

    def _whole(self, values: list[torch.Tensor]) -> list[torch.Tensor]:
        """Replaces empty values by zeros: this process has not stored them yet if all its minibatches were skipped."""
        sides = iter(self._world.largest(*(side for value in values for side in value.shape)))
        shapes = [[next(sides) for _ in value.shape] for value in values]
        return [value if value.numel() else value.new_zeros(shape) for value, shape in zip(values, shapes, strict=True)]
