"""Runs epochs of minibatches, with all events between minibatches: schedules, reports, snapshots, checkpoints."""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import math
import signal
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nnet3.errors import TrainingError
from nnet3.training.examples.merging import short
from nnet3.training.runs.checkpoints import Checkpoint, Checkpoints, join_states, naming_damage, own_state
from nnet3.training.runs.interfaces import DataSource, Placed
from nnet3.training.runs.packing import check_alike
from nnet3.training.runs.parallel import Parallel
from nnet3.training.runs.process_group import ProcessGroup
from nnet3.training.runs.reports import Reports
from nnet3.training.runs.snapshots import Snapshots
from nnet3.training.runs.stop import StopRequest
from nnet3.training.train.objectives import ObjectiveStats, total_stats
from nnet3.training.train.step_result import StepResult


@dataclass
class Progress:
    """The progress of one process, in a checkpoint as JSON; all but `position` and sums are equal in all processes."""

    step: int = 0  # minibatches done, by this process
    epoch: int = 0  # from 0
    position: Any = None  # in the epoch; None: at its beginning
    done: float = 0.0  # of the epoch, as its position says
    scheduled_at: float = 0.0  # the part of training by which learning rate and dropout were set last
    skipped: int = 0  # minibatches with NaN or infinity, of all processes
    owes_snapshot: bool = False  # one is due as soon as all processes have the same model
    snapshots: list[int] = field(default_factory=list)  # steps
    interval: ObjectiveStats = field(default_factory=ObjectiveStats)  # since the last line in the log
    whole_epoch: ObjectiveStats = field(default_factory=ObjectiveStats)  # since the epoch began
    tasks: dict[str, ObjectiveStats] = field(default_factory=dict)  # the interval's, of what is told beside, by name
    epoch_tasks: dict[str, ObjectiveStats] = field(default_factory=dict)  # the epoch's
    best: float | None = None  # held-out objective of an epoch, if there is a patience
    best_epoch: int = 0  # from 1
    is_over: bool = False  # patience is at an end

    def add(self, stats: ObjectiveStats, tasks: Mapping[str, ObjectiveStats]) -> None:
        """Counts a minibatch in."""
        for sums, named in ((self.interval, self.tasks), (self.whole_epoch, self.epoch_tasks)):
            sums.add(stats)
            for name, own in tasks.items():
                named.setdefault(name, ObjectiveStats()).add(own)

    def part_done(self, epochs: int) -> float:
        """Returns the part of the whole training that is over, 0 to 1."""
        return min((self.epoch + self.done) / epochs, 1.0) if epochs else 1.0

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Progress:
        sums: dict[str, Any] = {name: ObjectiveStats(**values[name]) for name in ("interval", "whole_epoch")}
        for by_name in ("tasks", "epoch_tasks"):
            sums[by_name] = {name: ObjectiveStats(**own) for name, own in values.get(by_name, {}).items()}
        known = {field.name for field in dataclasses.fields(cls)}
        return cls(**{name: value for name, value in {**values, **sums}.items() if name in known})


@dataclass(frozen=True)
class LoopSettings:
    """The length of a run, and the numbers of minibatches between which something happens; 0: never.

    `patience`: the run ends when the held-out objective was not better in so many epochs than before; 0: never. If the
    data cannot go on within an epoch, `only_whole_epochs`, checkpoints are written at the ends of epochs.
    """

    epochs: int
    max_skipped: int
    print_every: int
    validate_every: int
    checkpoint_every: int
    patience: int = 0
    only_whole_epochs: bool = False


@dataclass(kw_only=True)
class TrainingRun(abc.ABC):
    """The parts of a run, which goes on alike for all kinds of networks; a kind implements the steps.

    `facts`: facts in every checkpoint besides the progress. Without `checkpoints` nothing is kept.
    """

    loop: LoopSettings
    group: ProcessGroup
    source: DataSource
    parallel: Parallel
    checkpoints: Checkpoints | None
    snapshots: Snapshots
    reports: Reports
    stop: StopRequest
    facts: dict[str, dict[str, Any]]
    progress: Progress
    saved_at: int = -1
    stopped_by: int = 0  # the signal that has asked some process to stop

    # ---- what a kind of network says ----

    @property
    @abc.abstractmethod
    def task_names(self) -> Sequence[str]:
        """The names of what is told of beside the objective."""

    @abc.abstractmethod
    def told(self, minibatch: Any, result: StepResult) -> tuple[ObjectiveStats, dict[str, ObjectiveStats]]:
        """Returns the statistics of a step for reports: the objective, and other statistics by name."""

    @abc.abstractmethod
    def num_frames(self, minibatch: Any) -> int:
        """Returns how much a minibatch of this process counts in the speed that is told."""

    @abc.abstractmethod
    def set_schedules(self, done: float) -> float:
        """Sets all that changes in the course of training to when the part `done` is over; returns the rate."""

    def shrink(self, rate: float) -> float:
        """Multiplies all parameters before a round; returns by which number."""
        return 1.0

    @abc.abstractmethod
    def evaluate(self) -> dict[str, ObjectiveStats]:
        """Returns the statistics of held-out minibatches by name; nothing if there are none."""

    def total(self, stats: Mapping[str, ObjectiveStats]) -> ObjectiveStats:
        """Returns the objective, of what `evaluate` gave."""
        return total_stats(stats.values())

    def is_better(self, value: float, other: float) -> bool:
        """Returns true if a held-out objective is better than another one."""
        return value > other

    def keep_best(self) -> None:
        """Keeps the model: with a patience, after an epoch that is the best so far on held-out minibatches."""

    def take_best(self) -> None:
        """Goes back to the model of `keep_best`: with a patience, at the end."""

    @abc.abstractmethod
    def save_model(self, folder: Path) -> None:
        """Writes the model into the folder of a checkpoint."""

    def save_snapshot(self, path: Path) -> None:
        """Writes a model, perhaps a part of the final model; only kinds whose settings have snapshots are asked."""
        raise AssertionError(f"{type(self).__name__} has no snapshots")

    def own_state(self) -> Any:
        """Returns what a checkpoint keeps besides the progress and the state of the steps."""
        return None

    def load_own_state(self, state: Any) -> None:
        """Goes on from this process's state."""

    # ---- the run ----

    def train(self) -> bool:
        """Trains to the end. Returns False if a signal has asked to stop; then all is saved."""
        epochs = self.loop.epochs
        with self.reports.display.showing(self.progress.part_done(epochs)):
            while self.progress.epoch < epochs and not self.progress.is_over:
                with contextlib.closing(self._minibatches()) as minibatches:
                    for placed in minibatches:
                        self._step(placed)
                if self.stopped_by:
                    self.save_checkpoint()
                    self.reports.event("stop", step=self.progress.step, signal=signal.Signals(self.stopped_by).name)
                    return False
                self._end_epoch()
        if self.loop.patience:
            self.take_best()
        self.save_checkpoint()
        self.reports.event("trained", step=self.progress.step, skipped=self.progress.skipped)
        return True

    def restore(self, checkpoint: Checkpoint) -> None:
        """Goes on from the checkpoint. Raises ModelFormatError for a damaged checkpoint."""
        own = own_state(self.group, checkpoint)
        with naming_damage(checkpoint):
            check_alike(own, self._own())
            self.progress = Progress.from_json(own["progress"])
            if self.progress.step != checkpoint.step:
                raise ValueError(f"its progress is that of step {self.progress.step}")
            self.parallel.load_state(own["parallel"])
            self.load_own_state(own.get("own"))
            self.set_schedules(self.progress.scheduled_at)
        self.saved_at = checkpoint.step

    def save_checkpoint(self) -> None:
        """Writes a checkpoint of this step, unless one exists, or nobody could go on from it."""
        is_within = self.loop.only_whole_epochs and self.progress.position is not None
        if self.checkpoints is None or is_within or self.saved_at == self.progress.step:
            return
        self.saved_at = self.progress.step
        states = join_states(self.group, self._own())
        if self.group.is_first:
            path = self.checkpoints.save(self.progress.step, self.facts, states, self.save_model)
            self.reports.event("checkpoint", step=self.progress.step, path=str(path))

    def _own(self) -> dict[str, Any]:
        """Returns this process's state for a checkpoint."""
        return {"progress": self.progress.to_json(), "parallel": self.parallel.state(), "own": self.own_state()}

    # ---- minibatches ----

    def _minibatches(self) -> Generator[Placed]:
        """Yields the rest of this epoch, until some process has no minibatch left or is asked to stop."""
        with contextlib.closing(self.source.training(self.progress.epoch, self.progress.position)) as minibatches:
            while True:
                placed = None if self.stop.number else next(minibatches, None)
                has_none, self.stopped_by = self.group.largest(int(placed is None), self.stop.number)
                if has_none or placed is None:
                    return
                yield placed

    def _step(self, placed: Placed) -> None:
        progress, epochs = self.progress, self.loop.epochs
        before = progress.part_done(epochs)
        progress.scheduled_at = before
        rate = self.set_schedules(before)
        if self.parallel.begin_minibatch(progress.step, before):
            factor = self.shrink(rate)
            if factor != 1.0:
                self.reports.event("shrink", step=progress.step, factor=factor)
        result = self.parallel.train_minibatch(placed.minibatch, rate)
        progress.step += 1
        progress.position, progress.done = placed.position, placed.done
        stats, tasks = self.told(placed.minibatch, result)
        progress.add(stats, tasks)
        frames = self.num_frames(placed.minibatch) * self.group.size  # about: others may have a row less or more
        self._count_skipped(placed, result.skipped)
        after = progress.part_done(epochs)
        average = progress.interval.average if progress.interval.weight else None
        self.reports.display.update(after, frames, f"{progress.epoch + 1}/{epochs}", average)
        self._between_minibatches(before, after, rate)

    def _count_skipped(self, placed: Placed, reason: str | None) -> None:
        """Counts the minibatches of this step skipped by processes; `reason`: why, if this process has skipped."""
        number = int(self.parallel.sum_of([reason is not None])[0])
        if number == 0:
            return
        self.progress.skipped += number
        step, most = self.progress.step, self.loop.max_skipped
        own = {"process": self.group.rank, "reason": reason, "keys": list(placed.keys)}
        found = [each for each in self.group.tell(self.group.gather(own)) if each["reason"] is not None]
        for each in found:
            self.reports.event("skip", step=step, skipped=self.progress.skipped, **each)
        if self.progress.skipped > most:
            example = f" (example {short(found[0]['keys'])})" if found[0]["keys"] else ""
            raise TrainingError(
                f"minibatch {step}{example}: {found[0]['reason']}; {self.progress.skipped} "
                f"minibatches have been skipped so far, more than max-skipped = {most}: the run stops. Look at these "
                "examples, lower the learning rate, or allow more"
            )

    def _between_minibatches(self, before: float, after: float, rate: float) -> None:
        step, loop = self.progress.step, self.loop
        self.parallel.after_minibatch(step)
        if loop.print_every and step % loop.print_every == 0:
            self._report_interval(rate)
        if loop.validate_every and step % loop.validate_every == 0:
            self._validate(self.progress.epoch + 1)
        self.progress.owes_snapshot |= self.snapshots.are_due(before, after)
        if self.progress.owes_snapshot and self.parallel.models_agree:
            self._take_snapshot()
        if loop.checkpoint_every and step % loop.checkpoint_every == 0:
            self.save_checkpoint()

    def _end_epoch(self) -> None:
        progress = self.progress
        progress.epoch, progress.position, progress.done = progress.epoch + 1, None, 0.0
        is_last = progress.epoch == self.loop.epochs
        if is_last:
            self.parallel.finish()
            if self.snapshots.models:
                self._take_snapshot()
        stats, tasks = self._summed(progress.whole_epoch), self._summed_tasks(progress.epoch_tasks)
        progress.whole_epoch, progress.epoch_tasks = ObjectiveStats(), {}
        counts = self.source.counts()
        values = self.reports.averages(stats, tasks)
        self.reports.event("epoch", step=progress.step, epoch=progress.epoch, **values, **counts)
        held_out = self._validate(progress.epoch)
        self.end_epoch(stats, tasks, held_out)
        if self.loop.patience:
            self._look_at_patience(held_out)
        self.reports.draw()
        if self.loop.only_whole_epochs:
            self.save_checkpoint()

    def end_epoch(
        self, stats: ObjectiveStats, tasks: Mapping[str, ObjectiveStats], held_out: Mapping[str, ObjectiveStats]
    ) -> None:
        """Called after each epoch with the statistics of all its minibatches, and of held-out minibatches."""

    def _look_at_patience(self, held_out: Mapping[str, ObjectiveStats]) -> None:
        """Ends the run after too long without a better epoch. The first process, having validated, decides."""
        progress = self.progress
        value = self.group.tell(self.total(held_out).average if held_out else None)
        if value is None:
            return
        if not math.isnan(value) and (progress.best is None or self.is_better(value, progress.best)):
            progress.best, progress.best_epoch = value, progress.epoch
            self.keep_best()
        elif progress.epoch - progress.best_epoch >= self.loop.patience:
            progress.is_over = True
            self.reports.event("patience", step=progress.step, epoch=progress.epoch, best_epoch=progress.best_epoch)

    # ---- what is told and kept ----

    def _report_interval(self, rate: float) -> None:
        progress = self.progress
        stats, tasks = self._summed(progress.interval), self._summed_tasks(progress.tasks)
        progress.interval, progress.tasks = ObjectiveStats(), {}
        left = self.reports.display.seconds_left(progress.part_done(self.loop.epochs))
        self.reports.objectives(
            "train",
            progress.step,
            stats,
            tasks,
            epoch=progress.epoch + 1,
            learning_rate=rate,
            frames_per_second=round(self.reports.display.frames_per_second, 1),
            seconds_left=None if left is None else round(left),
        )

    def _summed(self, stats: ObjectiveStats) -> ObjectiveStats:
        return ObjectiveStats(*self.parallel.sum_of(stats.numbers()))

    def _summed_tasks(self, found: Mapping[str, ObjectiveStats]) -> dict[str, ObjectiveStats]:
        """Returns statistics by name, of all processes."""
        return {name: self._summed(found.get(name, ObjectiveStats())) for name in self.task_names}

    def _validate(self, epoch: int) -> dict[str, ObjectiveStats]:
        """Evaluates in the first process alone: the other processes wait at the next minibatch."""
        if not self.group.is_first:
            return {}
        found = self.evaluate()
        stats = self.total(found) if found else ObjectiveStats()
        if stats.weight:
            self.reports.objectives("valid", self.progress.step, stats, found, epoch=epoch)
        return found if stats.weight else {}

    def _take_snapshot(self) -> None:
        self.progress.owes_snapshot = False
        if self.progress.step in self.progress.snapshots:
            return
        self.progress.snapshots.append(self.progress.step)
        if self.group.is_first:
            self.save_snapshot(self.snapshots.path(self.progress.step))
