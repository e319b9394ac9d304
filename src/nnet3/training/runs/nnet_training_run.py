"""NnetTrainingRun: a run that trains a network of components, or the network of an acoustic model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nnet3.base.options.dropout_schedule import DropoutSchedule
from nnet3.model.nnet import AcousticModel, Nnet, network_of
from nnet3.training.runs.interfaces import RunObjectives
from nnet3.training.runs.settings import RunSettings
from nnet3.training.runs.training_run import LoopSettings, TrainingRun
from nnet3.training.train.evaluation import evaluate
from nnet3.training.train.minibatch import Minibatch
from nnet3.training.train.objectives import ObjectiveStats
from nnet3.training.train.schedules import exponential_rate, set_dropout, shrinkage
from nnet3.training.train.step_result import StepResult


def loop_settings(settings: RunSettings) -> LoopSettings:
    """Returns what the loop must know of a settings file."""
    return LoopSettings(
        epochs=settings.training.epochs,
        max_skipped=settings.training.max_skipped,
        print_every=settings.output.print_every,
        validate_every=settings.validation.every,
        checkpoint_every=settings.checkpoints.every,
    )


def saturation(nnet: Nnet) -> float:
    """Returns the mean over all nonlinearities of 1 - mean derivative / largest derivative; 0 without statistics."""
    found: list[float] = []
    leaves: Iterator[Any] = (leaf for component in nnet.components.values() for _, leaf in component.leaves())
    for leaf in leaves:
        if leaf.largest_derivs and leaf.deriv_sum.numel() and leaf.count > 0:
            means = leaf.deriv_sum.reshape(len(leaf.largest_derivs), -1).mean(1) / leaf.count
            found += [1.0 - mean / most for mean, most in zip(means.tolist(), leaf.largest_derivs, strict=True)]
    return sum(found) / len(found) if found else 0.0


@dataclass(kw_only=True)
class NnetTrainingRun(TrainingRun):
    """Put together by `train_model`. Several output nodes are told of each on its own, too."""

    settings: RunSettings
    model: Nnet | AcousticModel
    objectives: RunObjectives
    dropout: DropoutSchedule

    @property
    def nnet(self) -> Nnet:
        return network_of(self.model)

    @property
    def task_names(self) -> Sequence[str]:
        names = self.nnet.output_names
        return names if len(names) > 1 else ()

    def told(self, minibatch: Minibatch, result: StepResult) -> tuple[ObjectiveStats, dict[str, ObjectiveStats]]:
        names = [target.name for target in minibatch.targets]
        tasks = {name: result.total_of([name]) for name in names} if len(self.nnet.output_names) > 1 else {}
        return result.total_of(names), tasks

    def num_frames(self, minibatch: Minibatch) -> int:
        return len(minibatch.targets[0].indexes)

    def set_schedules(self, done: float) -> float:
        training = self.settings.training
        set_dropout(self.nnet, self.dropout, done)
        rate = exponential_rate(training.initial_learning_rate, training.final_learning_rate, done)
        self.nnet.set_learning_rate(rate)  # for who reads the model's file: the trainer has rates of its own
        return rate

    def shrink(self, rate: float) -> float:
        """Multiplies all parameters as the settings say."""
        training = self.settings.training
        saturated = training.shrink_value < 1.0 and (
            self.progress.step == 0 or saturation(self.nnet) > training.shrink_saturation_threshold
        )
        factor = shrinkage(rate * self.parallel.jobs, training.proportional_shrink, training.shrink_value, saturated)
        if factor != 1.0:
            self.nnet.scale_(factor)
        return factor

    def evaluate(self) -> dict[str, ObjectiveStats]:
        return evaluate(self.nnet, self.source.validation(), self.objectives.compare)

    def save_model(self, folder: Path) -> None:
        self.model.save(folder / ("model.mdl" if isinstance(self.model, AcousticModel) else "model.raw"))

    def save_snapshot(self, path: Path) -> None:
        self.nnet.save(path)
