"""Trains a model in each process, as Kaldi's scripts do; now and then all go on from the average."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from nnet3.base.options.training import TrainerOptions
from nnet3.model.nnet import Nnet
from nnet3.training.runs.parallel import TrainingRounds, sum_over_processes
from nnet3.training.runs.process_group import ProcessGroup
from nnet3.training.train.minibatch import Minibatch
from nnet3.training.train.objectives import Objective, ObjectiveStats
from nnet3.training.train.running_state import load_network_state, network_state, parameters, statistics
from nnet3.training.train.step_result import StepResult
from nnet3.training.train.trainer import Trainer

_WORSE_AND_STILL_GOOD = 1.0  # how far below the best an objective may be, for its model to count

_WORST = -1e300  # of a model that has seen nothing, or nothing finite
_NOT_TRAINED = -math.inf  # of a job that the end of training has left out


@dataclass(frozen=True)
class JobCounts:
    """The numbers of models that are averaged at the beginning and at the end of training; 0: one a process."""

    initial: int = 0
    final: int = 0

    def of_process(self, done: float, processes: int) -> int:
        """Returns how many models a process trains in turn when the part `done` of training is over."""
        wanted = self.initial + (self.final - self.initial) * done
        return max(1, int(wanted / processes + 0.5))


class AveragedModels:
    """Trains in rounds of `size` minibatches per model; every round has a new trainer.

    With J models learning rates are J times as large and l2 regularisation counts 1/J, so that the average moves as far
    as one model would. After the first round, where models have little in common yet, the best model is kept instead.
    Later on models much worse than the best do not count. A process trains one model, or, with `jobs`, several models
    in turn, all from the model at the round's beginning; the rate is then the rate at the round's beginning.
    """

    def __init__(
        self,
        nnet: Nnet,
        options: TrainerOptions,
        objective: Objective,
        group: ProcessGroup,
        rounds: TrainingRounds,
        jobs: JobCounts | None = None,
    ):
        self._nnet, self._options, self._objective = nnet, options, objective
        self._group, self._rounds, self._counts = group, rounds, jobs
        self._round, self._steps, self._stats = 0, 0, ObjectiveStats()
        self._own_jobs, self._rate = 1, 0.0  # of this round
        self._start: Any = None  # the model that the round began with, if there are several jobs
        self._finished: list[Any] = []  # the models of this round's earlier jobs, and their objectives
        self._trainer: Trainer | None = None  # between jobs there is none: a new one forgets statistics

    @property
    def models_agree(self) -> bool:
        return self._steps == 0 and not self._finished

    @property
    def jobs(self) -> int:
        return self._own_jobs * self._group.size

    def begin_minibatch(self, step: int, done: float) -> bool:
        if self._counts is not None and self.models_agree:
            self._own_jobs = self._counts.of_process(done, self._group.size)
        return self.models_agree

    def train_minibatch(self, minibatch: Minibatch, rate: float) -> StepResult:
        if self.models_agree:
            self._rate, self._start = rate, network_state(self._nnet) if self._own_jobs > 1 else None
        if self._trainer is None:
            self._trainer = self._new_trainer()
        own_rate = rate if self._counts is None else self._rate
        result = self._trainer.train_minibatch(minibatch, own_rate * self.jobs)
        self._steps += 1
        self._stats.add(result.total_of(target.name for target in minibatch.targets))
        return result

    def after_minibatch(self, step: int) -> None:
        if self._steps < (self._rounds.first if self._round == 0 else self._rounds.size):
            return
        if len(self._finished) + 1 == self._own_jobs:
            self._end_round()
            return
        self._finished.append({"objective": self._objective_of_job(), "network": network_state(self._nnet)})
        load_network_state(self._nnet, self._start)
        self._steps, self._stats, self._trainer = 0, ObjectiveStats(), None

    def finish(self) -> None:
        if not self.models_agree:
            self._end_round()

    def state(self) -> Any:
        own = {"round": self._round, "steps": self._steps, "stats": self._stats.numbers()}
        jobs = {"own_jobs": self._own_jobs, "rate": self._rate, "start": self._start, "finished": list(self._finished)}
        trainer = None if self._trainer is None else self._trainer.state()
        return {"network": network_state(self._nnet), "trainer": trainer, **own, "jobs": jobs}

    def load_state(self, state: Any) -> None:
        self._round = state["round"]
        jobs = state["jobs"]
        self._own_jobs, self._rate, self._start = jobs["own_jobs"], jobs["rate"], jobs["start"]
        self._finished = list(jobs["finished"])
        self._trainer = None if state["trainer"] is None else self._new_trainer()
        load_network_state(self._nnet, state["network"])
        if self._trainer is not None:
            self._trainer.load_state(state["trainer"])
        self._steps, self._stats = state["steps"], ObjectiveStats(*state["stats"])

    def sum_of(self, numbers: Sequence[float]) -> list[float]:
        return sum_over_processes(self._group, numbers)

    # ---- rounds ----

    def _new_trainer(self) -> Trainer:
        number = self._group.rank + self._group.size * len(self._finished)
        options = replace(
            self._rounds.options(self._options, is_first=self._round == 0),
            seed=self._options.seed + 1_000 * self._round + number,
            l2_regularize_factor=self._options.l2_regularize_factor / self.jobs,
        )
        return Trainer(self._nnet, options, self._objective)

    def _end_round(self) -> None:
        self._average(self._shares())
        self._round, self._steps, self._stats, self._trainer = self._round + 1, 0, ObjectiveStats(), None
        self._finished, self._start = [], None

    def _objective_of_job(self) -> float:
        own = (self._stats.objective + self._stats.auxiliary) / self._stats.weight if self._stats.weight else _WORST
        return own if math.isfinite(own) else _WORST

    def _shares(self) -> list[float]:
        """Returns the weights in the average of the models of this process: of the earlier jobs, and the last one."""
        last = self._objective_of_job() if self._steps else _NOT_TRAINED
        own = [*(each["objective"] for each in self._finished), last]
        all_own = torch.zeros(self._group.size, len(own), dtype=torch.float64)
        all_own[self._group.rank] = torch.tensor(own, dtype=torch.float64)
        self._group.sum_([all_own])
        accepted = all_own >= all_own.max() - _WORSE_AND_STILL_GOOD
        if self._round == 0:
            accepted = torch.zeros_like(accepted)
            accepted.view(-1)[all_own.argmax()] = True
        return (accepted[self._group.rank].double() / accepted.sum()).tolist()

    @torch.no_grad()
    def _average(self, shares: Sequence[float]) -> None:
        """Replaces parameters and statistics of all models by the sum of all models, weighted by `shares`."""
        whole = self._nnet.flat_parameters()
        found = statistics(self._nnet)
        values = self._whole([statistic.copy() for statistic in found.values()])
        for tensor in (*whole, *values):
            tensor.zero_() if shares[-1] == 0 else tensor.mul_(shares[-1])  # times zero would keep a NaN
        for share, job in zip(shares, self._finished, strict=False):
            others = self._whole([job["network"]["statistics"][name] for name in found])
            if share == 0:
                continue
            for name, tensor in parameters(self._nnet).items():
                tensor.add_(job["network"]["parameters"][name].to(tensor.device), alpha=share)
            for value, other in zip(values, others, strict=True):
                value.add_(other.to(value.device), alpha=share)
        self._group.sum_(whole)
        self._group.sum_(values)
        self._nnet.zero_stats()  # what is derived from old statistics is forgotten too
        for statistic, value in zip(found.values(), values, strict=True):
            statistic.set(value)

    def _whole(self, values: list[torch.Tensor]) -> list[torch.Tensor]:
        """Replaces empty statistics by zeros: a process that skipped all minibatches has stored none."""
        sides = iter(self._group.largest(*(side for value in values for side in value.shape)))
        shapes = [[next(sides) for _ in value.shape] for value in values]
        return [value if value.numel() else value.new_zeros(shape) for value, shape in zip(values, shapes, strict=True)]
