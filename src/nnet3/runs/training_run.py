"""Runs epochs of minibatches, with all that happens between them: schedules, reports, snapshots, checkpoints."""

from __future__ import annotations

import contextlib
import dataclasses
import signal
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

from nnet3.errors import TrainingError
from nnet3.examples.merging import short
from nnet3.nnet import AcousticModel, Nnet
from nnet3.runs.checkpoints import Checkpoint, Checkpoints, join_states, own_state
from nnet3.runs.parallel import Parallel
from nnet3.runs.plugs import DataSource, Placed, RunObjectives
from nnet3.runs.reports import Reports
from nnet3.runs.settings import RunSettings
from nnet3.runs.snapshots import Snapshots
from nnet3.runs.stop import StopRequest
from nnet3.runs.world import World
from nnet3.train.evaluation import evaluate
from nnet3.train.objectives import ObjectiveStats, total_stats
from nnet3.train.saturation import saturation
from nnet3.train.schedules import DropoutSchedule, exponential_rate, shrinkage


@dataclass
class Progress:
    """The progress of one process, as a checkpoint says it in JSON; all but `position` and sums are the same in all."""

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
    tasks: dict[str, ObjectiveStats] = field(
        default_factory=dict
    )  # the interval's, by output node, if there are several

    def part_done(self, epochs: int) -> float:
        """Returns the part of the whole training that is over, 0 to 1."""
        return min((self.epoch + self.done) / epochs, 1.0)

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Progress:
        sums: dict[str, Any] = {name: ObjectiveStats(**values[name]) for name in ("interval", "whole_epoch")}
        sums["tasks"] = {name: ObjectiveStats(**own) for name, own in values.get("tasks", {}).items()}
        known = {field.name for field in dataclasses.fields(cls)}
        return cls(**{name: value for name, value in {**values, **sums}.items() if name in known})


@dataclass
class TrainingRun:
    """The parts of a run, put together by `train_model`. `facts`: what every checkpoint says besides the progress."""

    settings: RunSettings
    world: World
    model: Nnet | AcousticModel
    source: DataSource
    objectives: RunObjectives
    parallel: Parallel
    dropout: DropoutSchedule
    checkpoints: Checkpoints
    snapshots: Snapshots
    reports: Reports
    stop: StopRequest
    facts: dict[str, dict[str, Any]]
    progress: Progress
    saved_at: int = -1
    stopped_by: int = 0  # the signal that has asked some process to stop

    @property
    def nnet(self) -> Nnet:
        return self.model.nnet if isinstance(self.model, AcousticModel) else self.model

    def train(self) -> bool:
        """Trains to the end. Returns False if a signal has asked to stop; then all is saved."""
        epochs = self.settings.training.epochs
        with self.reports.display.showing(self.progress.part_done(epochs)):
            while self.progress.epoch < epochs:
                with contextlib.closing(self._minibatches()) as minibatches:
                    for placed in minibatches:
                        self._step(placed)
                if self.stopped_by:
                    self.save_checkpoint()
                    self.reports.event("stop", step=self.progress.step, signal=signal.Signals(self.stopped_by).name)
                    return False
                self._end_epoch()
        self.save_checkpoint()
        self.reports.event("trained", step=self.progress.step, skipped=self.progress.skipped)
        return True

    def restore(self, checkpoint: Checkpoint) -> None:
        """Goes on where the checkpoint was written."""
        own = own_state(self.world, checkpoint)
        self.progress = Progress.from_json(own["progress"])
        self.parallel.load_state(own["parallel"])
        self._set_schedules(self.progress.scheduled_at)
        self.saved_at = checkpoint.step

    def save_checkpoint(self) -> None:
        """Writes a checkpoint of this step, unless there is one."""
        if self.saved_at == self.progress.step:
            return
        self.saved_at = self.progress.step
        own = {"progress": self.progress.to_json(), "parallel": self.parallel.state()}
        states = join_states(self.world, own)
        if self.world.is_first:
            path = self.checkpoints.save(self.progress.step, self.facts, states, self.model)
            self.reports.event("checkpoint", step=self.progress.step, path=str(path))

    # ---- minibatches ----

    def _minibatches(self) -> Generator[Placed]:
        """Yields the rest of this epoch, until some process has no minibatch left or is asked to stop."""
        with contextlib.closing(self.source.training(self.progress.epoch, self.progress.position)) as minibatches:
            while True:
                placed = None if self.stop.number else next(minibatches, None)
                has_none, self.stopped_by = self.world.largest(int(placed is None), self.stop.number)
                if has_none or placed is None:
                    return
                yield placed

    def _step(self, placed: Placed) -> None:
        training, progress = self.settings.training, self.progress
        before = progress.part_done(training.epochs)
        rate = self._set_schedules(before)
        self.parallel.begin_minibatch(before)
        if progress.step % self.settings.distributed.round == 0 and self.parallel.models_agree:
            self._shrink(rate)
        result = self.parallel.train_minibatch(placed.minibatch, rate)
        progress.step += 1
        progress.position, progress.done = placed.position, placed.done
        stats = result.total_of(target.name for target in placed.minibatch.targets)
        progress.interval.add(stats)
        progress.whole_epoch.add(stats)
        for target in placed.minibatch.targets if len(self.nnet.output_names) > 1 else ():
            progress.tasks.setdefault(target.name, ObjectiveStats()).add(result.total_of([target.name]))
        frames = len(placed.minibatch.targets[0].indexes) * self.world.size  # about: others may have a row less or more
        self._count_skipped(placed, result.skipped)
        after = progress.part_done(training.epochs)
        average = progress.interval.average if progress.interval.weight else None
        self.reports.display.update(after, frames, f"{progress.epoch + 1}/{training.epochs}", average)
        self._between_minibatches(before, after, rate)

    def _shrink(self, rate: float) -> None:
        """Multiplies all parameters before a round, as the settings say."""
        training = self.settings.training
        saturated = training.shrink_value < 1.0 and (
            self.progress.step == 0 or saturation(self.nnet) > training.shrink_saturation_threshold
        )
        factor = shrinkage(rate * self.parallel.jobs, training.proportional_shrink, training.shrink_value, saturated)
        if factor != 1.0:
            self.nnet.scale_(factor)
            self.reports.event("shrink", step=self.progress.step, factor=factor)

    def _set_schedules(self, done: float) -> float:
        """Sets dropout and learning rate for when the part `done` of training is over; returns the latter."""
        training = self.settings.training
        self.progress.scheduled_at = done
        self.dropout.apply(self.nnet, done)
        rate = exponential_rate(training.initial_learning_rate, training.final_learning_rate, done)
        self.nnet.set_learning_rate(rate)  # for who reads the model's file: the trainer has rates of its own
        return rate

    def _count_skipped(self, placed: Placed, reason: str | None) -> None:
        """Counts the minibatches of this step that processes have skipped; `reason`: why, if this process has."""
        number = int(self.parallel.sum_of([reason is not None])[0])
        if number == 0:
            return
        self.progress.skipped += number
        step, most = self.progress.step, self.settings.training.max_skipped
        own = {"process": self.world.rank, "reason": reason, "keys": list(placed.keys)}
        found = [each for each in self.world.tell(self.world.gather(own)) if each["reason"] is not None]
        for each in found:
            self.reports.event("skip", step=step, skipped=self.progress.skipped, **each)
        if self.progress.skipped > most:
            raise TrainingError(
                f"minibatch {step} (example {short(found[0]['keys'])}): {found[0]['reason']}; {self.progress.skipped} "
                f"minibatches have been skipped so far, more than max-skipped = {most}: the run stops. Look at these "
                "examples, lower the learning rate, or allow more"
            )

    def _between_minibatches(self, before: float, after: float, rate: float) -> None:
        step, settings = self.progress.step, self.settings
        self.parallel.after_minibatch(step)
        if step % settings.output.print_every == 0:
            self._report_interval(rate)
        if settings.validation.every and step % settings.validation.every == 0:
            self._validate(self.progress.epoch + 1)
        self.progress.owes_snapshot |= self.snapshots.are_due(before, after)
        if self.progress.owes_snapshot and self.parallel.models_agree:
            self._take_snapshot()
        if step % settings.checkpoints.every == 0:
            self.save_checkpoint()

    def _end_epoch(self) -> None:
        progress = self.progress
        progress.epoch, progress.position, progress.done = progress.epoch + 1, None, 0.0
        is_last = progress.epoch == self.settings.training.epochs
        if is_last:
            self.parallel.finish()
            if self.snapshots.models:
                self._take_snapshot()
        stats = ObjectiveStats(*self.parallel.sum_of(progress.whole_epoch.numbers()))
        progress.whole_epoch = ObjectiveStats()
        counts = self.source.counts()
        self.reports.event("epoch", step=progress.step, epoch=progress.epoch, objective=stats.average, **counts)
        self._validate(progress.epoch)
        self.reports.draw()

    # ---- what is told and kept ----

    def _report_interval(self, rate: float) -> None:
        progress = self.progress
        stats = ObjectiveStats(*self.parallel.sum_of(progress.interval.numbers()))
        progress.interval = ObjectiveStats()
        tasks = self._tasks_of_interval()
        left = self.reports.display.seconds_left(progress.part_done(self.settings.training.epochs))
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

    def _tasks_of_interval(self) -> dict[str, ObjectiveStats]:
        """Returns the interval's statistics by output node, of all processes, and begins anew."""
        found, self.progress.tasks = self.progress.tasks, {}
        names = self.nnet.output_names if len(self.nnet.output_names) > 1 else []
        sums = {name: self.parallel.sum_of(found.get(name, ObjectiveStats()).numbers()) for name in names}
        return {name: ObjectiveStats(*numbers) for name, numbers in sums.items()}

    def _validate(self, epoch: int) -> None:
        """Evaluates in the first process alone: the others wait for it at the next minibatch."""
        if not self.world.is_first:
            return
        tasks = evaluate(self.nnet, self.source.validation(), self.objectives.compare)
        stats = total_stats(tasks.values())
        if stats.weight:
            self.reports.objectives("valid", self.progress.step, stats, tasks, epoch=epoch)

    def _take_snapshot(self) -> None:
        self.progress.owes_snapshot = False
        if self.progress.step in self.progress.snapshots:
            return
        self.progress.snapshots.append(self.progress.step)
        if self.world.is_first:
            self.snapshots.save(self.nnet, self.progress.step)
