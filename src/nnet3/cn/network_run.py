"""NetworkRun: a run that trains a computational network."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nnet3.cn.batch_source import BatchSource
from nnet3.cn.network_in_training import CRITERION, Batch, NetworkInTraining
from nnet3.cn.network_trainer import NetworkTrainer
from nnet3.cn.place import warn_user
from nnet3.cn.registry import is_registered
from nnet3.cn.saving import save
from nnet3.cn.text_form import to_text
from nnet3.errors import NetworkError
from nnet3.runs.training_run import TrainingRun
from nnet3.train.objectives import ObjectiveStats
from nnet3.train.trainer import StepResult


class History(list[float]):
    """The criterion of each epoch, its mean over samples; NaN if all minibatches of it were skipped.

    `metrics`: by name, the mean of each epoch. `validation`: by name, criterion and metrics of held-out minibatches;
    of several processes only the first has them.
    """

    def __init__(self, criteria: Sequence[float] = ()) -> None:
        super().__init__(criteria)
        self.metrics: dict[str, list[float]] = {}
        self.validation: dict[str, list[float]] = {}


@dataclass(kw_only=True)
class NetworkRun(TrainingRun):
    """`rate_at`: the learning rate when a part of training is over; `is_scheduled`: whether it changes.

    `report` is called after each epoch with its number and criterion.
    """

    source: BatchSource
    trainer: NetworkTrainer
    rate_at: Callable[[float], float]
    is_scheduled: bool
    report: Callable[[int, float], None] | None
    history: History = field(default_factory=History)
    best: dict[str, Any] | None = None  # contents of the best epoch, if there is a patience
    samples: int = 0  # of the last minibatch

    @property
    def model(self) -> NetworkInTraining:
        return self.trainer.model

    @property
    def task_names(self) -> Sequence[str]:
        return tuple(self.model.metrics)

    def told(self, minibatch: Batch, result: StepResult) -> tuple[ObjectiveStats, dict[str, ObjectiveStats]]:
        tasks = dict(result.stats)
        criterion = tasks.pop(CRITERION, ObjectiveStats())
        self.samples = int(criterion.weight)
        return criterion, tasks

    def num_frames(self, minibatch: Batch) -> int:
        return self.samples // self.world.size

    def set_schedules(self, done: float) -> float:
        return self.trainer.set_rate(self.rate_at(done), is_scheduled=self.is_scheduled)

    def evaluate(self) -> dict[str, ObjectiveStats]:
        found: dict[str, ObjectiveStats] = {}
        for batch in self.source.validation():
            counted = self.model.network.totals(batch, self.model.metrics)
            for name, stats in self.model.stats(counted).items():
                found.setdefault(name, ObjectiveStats()).add(stats)
        return found

    def total(self, stats: Mapping[str, ObjectiveStats]) -> ObjectiveStats:
        return stats[CRITERION]

    def is_better(self, value: float, other: float) -> bool:
        return value < other

    def keep_best(self) -> None:
        self.best = self.model.contents()

    def take_best(self) -> None:
        if self.best is not None:
            self.model.load_contents(self.best)

    def end_epoch(
        self, stats: ObjectiveStats, tasks: Mapping[str, ObjectiveStats], held_out: Mapping[str, ObjectiveStats]
    ) -> None:
        self.history.append(_mean(stats))
        for named, found in ((self.history.metrics, tasks), (self.history.validation, held_out)):
            for name, own in found.items():
                named.setdefault(name, []).append(_mean(own))
        if self.report is not None:
            self.report(self.progress.epoch, self.history[-1])

    def save_model(self, folder: Path) -> None:
        self._save(folder / "model.cn")

    def save_final(self, folder: Path) -> None:
        """Writes `final.cn`, and says so. In the first process."""
        if self.world.is_first and self._save(folder / "final.cn"):
            self.reports.event("final", step=self.progress.step, path=str(folder / "final.cn"))

    def warn_of_what_is_not_saved(self) -> None:
        """Warn of a network with operations that no file can name: its checkpoints hold parameters alone."""
        try:
            to_text(self.model.network)
        except NetworkError as error:
            warn_user(f"the trained network will not be written to final.cn: {error}")

    def _save(self, path: Path) -> bool:
        """Returns False, and writes nothing, for a network with operations that no file can name."""
        if not all(is_registered(node.operation) for node in self.model.network.nodes):
            return False
        save(self.model.network, path)
        return True

    def own_state(self) -> Any:
        history = self.history
        told = {"criterion": list(history), "metrics": history.metrics, "validation": history.validation}
        return {"history": told, "best": self.best, "per_epoch": self.source.per_epoch}

    def load_own_state(self, state: Any) -> None:
        self.best, self.source.per_epoch = state["best"], state["per_epoch"]
        self.history[:] = state["history"]["criterion"]
        self.history.metrics = state["history"]["metrics"]
        self.history.validation = state["history"]["validation"]


def _mean(stats: ObjectiveStats) -> float:
    return stats.average if stats.weight else math.nan
