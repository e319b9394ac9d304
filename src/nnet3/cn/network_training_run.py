"""NetworkTrainingRun: a run that trains a computational network; BatchSource: minibatches as the run's data."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import length_hint
from pathlib import Path
from typing import Any, TypeAlias

from nnet3.cn.network_in_training import CRITERION, Batch, NetworkInTraining
from nnet3.cn.network_trainer import NetworkTrainer
from nnet3.cn.operation_types import is_registered
from nnet3.cn.place import warn_user
from nnet3.cn.saving import save
from nnet3.cn.text_form import to_text
from nnet3.errors import NetworkError, TrainingError
from nnet3.training.runs.interfaces import DataSource, Placed
from nnet3.training.runs.training_run import TrainingRun
from nnet3.training.train.objectives import ObjectiveStats
from nnet3.training.train.step_result import StepResult


class History(list[float]):
    """The criterion of every epoch, a mean over samples; NaN if all minibatches of the epoch were skipped.

    `metrics`: by name, the mean of every epoch. `validation`: by name, criterion and metrics of held-out minibatches;
    of several processes only the first has `validation`.
    """

    def __init__(self, criteria: Sequence[float] = ()) -> None:
        super().__init__(criteria)
        self.metrics: dict[str, list[float]] = {}
        self.validation: dict[str, list[float]] = {}


@dataclass(kw_only=True)
class NetworkTrainingRun(TrainingRun):
    """`rate_at`: the learning rate after a share of training; `is_scheduled`: whether the rate changes.

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
        return self.samples // self.group.size

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
        if self.group.is_first and self._save(folder / "final.cn"):
            self.reports.event("final", step=self.progress.step, path=str(folder / "final.cn"))

    def warn_of_what_is_not_saved(self) -> None:
        """Warns of a network with operations that no file can name: checkpoints hold parameters alone."""
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


Batches: TypeAlias = Callable[[], Iterable[Batch]] | Iterable[Batch]


class BatchSource(DataSource):
    """A list of minibatches; a function that begins anew for each epoch; or a reader, which has `epoch(number)`.

    A list and a reader may be gone on with at any minibatch of an epoch; the minibatches of a function may depend on
    the use of earlier minibatches. With `by_number` a reader is asked for epochs by number.
    """

    def __init__(self, minibatches: Batches, validation: Batches | None, *, by_number: bool = False):
        for batches, what in ((minibatches, "minibatches"), (validation, "held-out minibatches")):
            if batches is not None and not callable(batches):
                _begun(batches, what)
        if isinstance(validation, Sequence) and not validation:
            raise TrainingError("validation holds no held-out minibatches: give some, or leave it out")
        self._minibatches, self._validation = minibatches, validation
        self._by_number = by_number and hasattr(minibatches, "epoch")
        self.per_epoch = length_hint(minibatches)  # 0: not known yet

    @property
    def goes_on(self) -> bool:
        """True if an epoch can be gone on with in its midst."""
        return isinstance(self._minibatches, Sequence) or self._by_number

    def count(self) -> None:
        """Finds out how many minibatches the first epoch has, by going through it if that can be done twice."""
        if not self.per_epoch and not isinstance(self._minibatches, Iterator):
            reader: Any = self._minibatches
            self.per_epoch = sum(1 for _ in (reader.epoch(0) if hasattr(reader, "epoch") else self._epoch(0)))

    def training(self, epoch: int, position: Any) -> Generator[Placed]:
        number = 0
        for number, batch in enumerate(self._epoch(epoch), 1):
            if number > (position or 0):
                done = number / self.per_epoch if self.per_epoch else 0.0
                yield Placed(batch, number, min(done, 1.0))
        if number == 0:
            raise TrainingError(f"epoch {epoch + 1}: no minibatches (a generator can be gone through only once)")
        self.per_epoch = number

    def _epoch(self, number: int) -> Iterable[Batch]:
        if self._by_number:
            found: Iterable[Batch] = self._minibatches.epoch(number)  # type: ignore[union-attr]
            return found
        return _begun(self._minibatches, "minibatches")

    def validation(self) -> Iterator[Batch]:
        if self._validation is None:
            return
        has_any = False
        for batch in _begun(self._validation, "held-out minibatches"):
            has_any = True
            yield batch
        if not has_any:
            raise TrainingError("no held-out minibatches (a generator can be gone through only once)")

    def combination(self) -> Iterable[Batch]:
        return ()

    def identity(self) -> dict[str, Any]:
        return {"minibatches": self.per_epoch} if isinstance(self._minibatches, Sequence) else {}

    def counts(self) -> dict[str, float]:
        return {}

    def close(self) -> None:
        """Does nothing: minibatches are the caller's."""


def _begun(batches: Batches, what: str) -> Iterable[Batch]:
    """Returns the minibatches of an epoch, not begun yet. Raises TrainingError for what cannot be minibatches."""
    found = batches() if callable(batches) else batches
    if isinstance(found, Mapping | str) or not isinstance(found, Iterable):
        raise TrainingError(f"expected a list of {what}, each {{'x': X, ...}}, got a {type(found).__name__}")
    return found
