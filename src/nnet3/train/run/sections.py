"""The sections that every settings file has, as dataclasses: each field declares its kind, its default and its help."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nnet3.compiler import NO_DERIV_TIMES
from nnet3.train.dropout_schedule import DropoutSchedule
from nnet3.train.run.value_kinds import TEXT, TIME, TRUTH, choice, integer, number, parsed, setting


def parse_dropout(text: str) -> DropoutSchedule:
    """A dropout schedule; none of no words."""
    return DropoutSchedule.parse(text) if text.split() else DropoutSchedule(())


@dataclass(frozen=True)
class ModelSection:
    """What is trained."""

    file: str = setting("", TEXT, "config, raw network or acoustic model (.mdl) to begin with")
    seed: int = setting(0, integer(0), "of the initial parameters that a config draws")


@dataclass(frozen=True)
class TrainingSection:
    """The steps. Names are those of Kaldi's options."""

    epochs: int = setting(10, integer(1), "times that all examples are seen")
    initial_learning_rate: float = setting(0.01, number(above=0.0), "at the beginning; it falls exponentially")
    final_learning_rate: float = setting(0.001, number(above=0.0), "at the end")
    max_param_change: float = setting(2.0, number(0.0), "longest step of a minibatch; 0: no limit")
    momentum: float = setting(0.0, number(0.0, 0.999), "of the steps")
    l2_regularize_factor: float = setting(1.0, number(0.0), "times the l2-regularize of each component")
    batchnorm_stats_scale: float = setting(
        0.8, number(0.0, 1.0), "what is kept of batch-norm statistics, each minibatch"
    )
    backstitch_training_scale: float = setting(0.0, number(0.0), "alpha of backstitch; 0: none")
    backstitch_training_interval: int = setting(1, integer(1), "minibatches from one backstitch to the next")
    dropout_schedule: str = setting(
        "",
        parsed("a schedule", parse_dropout),
        "such as 0,0@0.20,0.5@0.50,0; several as pattern=schedule, blanks between",
    )
    max_skipped: int = setting(100, integer(0), "stop after so many minibatches with NaN or infinity", arithmetic=False)
    min_deriv_time: int = setting(NO_DERIV_TIMES["min_deriv_time"], TIME, "derivatives before this time count as zero")
    max_deriv_time: int = setting(NO_DERIV_TIMES["max_deriv_time"], TIME, "derivatives after this time count as zero")
    max_deriv_time_relative: int = setting(
        NO_DERIV_TIMES["max_deriv_time_relative"], TIME, "the same, counted from the last time of the output"
    )
    deriv_truncate_margin: int = setting(
        -1, integer(-1), "derivatives only so many frames beyond the contexts of a chunk; -1: everywhere"
    )
    seed: int = setting(0, integer(0), "of all that is drawn at random")
    threads: int = setting(0, integer(0), "of each process; 0: as PyTorch chooses")
    device: str = setting("cpu", TEXT, "cpu, cuda, or cuda:1; with several processes each takes its own CUDA device")

    def deriv_times(self, left_context: int, right_context: int) -> dict[str, Any]:
        """The derivative times for a network with these contexts, by the names that the trainer's options have."""
        times = {name: getattr(self, name) for name in NO_DERIV_TIMES}
        if self.deriv_truncate_margin >= 0:
            times["min_deriv_time"] = -self.deriv_truncate_margin - left_context
            times["max_deriv_time_relative"] = self.deriv_truncate_margin + right_context
        return times


@dataclass(frozen=True)
class ValidationSection:
    """Objective on held-out examples."""

    every: int = setting(0, integer(0), "minibatches between; 0: at the end of each epoch only", arithmetic=False)


@dataclass(frozen=True)
class CombinationSection:
    """Models from the end of training, averaged as is best for held-out examples (Kaldi: nnet3-combine)."""

    models: int = setting(20, integer(0), "how many are kept for it; 0: the last model is the final one")
    part: float = setting(0.5, number(above=0.0, maximum=1.0), "of training that they are taken from, its end")
    max_objective_evaluations: int = setting(30, integer(1), "averages that are tried")


@dataclass(frozen=True)
class CheckpointsSection:
    """What a run goes on from."""

    every: int = setting(1000, integer(1), "minibatches between", arithmetic=False)
    keep: int = setting(2, integer(1), "older ones are removed", arithmetic=False)


@dataclass(frozen=True)
class DistributedSection:
    """With torchrun."""

    mode: str = setting(
        "all-reduce", choice("all-reduce", "averaging"), "of gradients each minibatch, or of models each round"
    )
    round: int = setting(400, integer(1), "minibatches of each process between averages (averaging)")
    timeout: float = setting(1800.0, number(above=0.0), "seconds that processes wait for each other", arithmetic=False)


@dataclass(frozen=True)
class OutputSection:
    """What is written, and what is said."""

    folder: str = setting("", TEXT, "where all goes", arithmetic=False)
    print_every: int = setting(100, integer(1), "minibatches of a line in the log", arithmetic=False)
    curves: bool = setting(True, TRUTH, "curves.png, if matplotlib is installed", arithmetic=False)
    tensorboard: bool = setting(True, TRUTH, "scalars for TensorBoard, if it is installed", arithmetic=False)


SECTIONS: dict[str, type] = {
    "model": ModelSection,
    "training": TrainingSection,
    "validation": ValidationSection,
    "combination": CombinationSection,
    "checkpoints": CheckpointsSection,
    "distributed": DistributedSection,
    "output": OutputSection,
}
