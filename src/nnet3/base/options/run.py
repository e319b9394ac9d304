"""Options of `nnet3 train-model`: the sections that every settings file has."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nnet3.base.options.declaring import Options, again, option
from nnet3.base.options.dropout_schedule import DropoutSchedule
from nnet3.base.options.training import FeatureTransformOptions, LdaStatsOptions, StepOptions
from nnet3.base.text.values import Boolean, Integer, Number, Text, above, at_least, bounds, choice, within

_COUNT, _SIZE, _POSITIVE = Integer(at_least(0)), Integer(at_least(1)), Number(above(0))
_NOT_NEGATIVE = Number(at_least(0))
_SEED = Integer(at_least(0), bits=64)


def parse_dropout(text: str) -> DropoutSchedule:
    """Returns a dropout schedule, which is empty for an empty text."""
    return DropoutSchedule.parse(text) if text.split() else DropoutSchedule(())


@dataclass(frozen=True)
class ModelSection(Options):
    """What is trained."""

    file: str = option("", Text(), "config, raw network or acoustic model (.mdl) to begin with")
    seed: int = option(0, _SEED, "of the initial parameters that a config draws")


@dataclass(frozen=True)
class TrainingSection(StepOptions):
    """The steps. Names are those of Kaldi's options."""

    epochs: int = option(10, _SIZE, "times that all examples are seen")
    initial_learning_rate: float = option(0.01, _POSITIVE, "at the beginning; it falls exponentially")
    final_learning_rate: float = option(0.001, _POSITIVE, "at the end")
    dropout_schedule: str = option(
        "",
        Text(description="a schedule", parse=parse_dropout),
        "such as 0,0@0.20,0.5@0.50,0; several as pattern=schedule, blanks between",
    )
    deriv_truncate_margin: int = option(
        -1, Integer(at_least(-1)), "derivatives only so many frames beyond the contexts of a chunk; -1: everywhere"
    )
    proportional_shrink: float = option(
        0.0, _NOT_NEGATIVE, "parameters are multiplied by 1 minus this times the learning rate before each round"
    )
    shrink_value: float = option(
        1.0, Number(bounds(above=0, maximum=1)), "by this instead, if smaller, where nonlinearities are saturated"
    )
    shrink_saturation_threshold: float = option(
        0.4, Number(within(0, 1)), "from which saturation of sigmoids and tanhs on shrink-value counts"
    )
    seed: int = option(0, _SEED, "of all that is drawn at random")
    threads: int = option(0, _COUNT, "of each process; 0: as PyTorch chooses")
    device: str = option("cpu", Text(), "cpu, cuda, or cuda:1; with several processes each takes its own CUDA device")

    def deriv_times_for(self, left_context: int, right_context: int) -> dict[str, int | None]:
        """Returns the derivative times for a network with these contexts, by their names in the trainer's options."""
        times = self.deriv_times()
        if self.deriv_truncate_margin >= 0:
            times["min_deriv_time"] = -self.deriv_truncate_margin - left_context
            times["max_deriv_time_relative"] = self.deriv_truncate_margin + right_context
        return times


@dataclass(frozen=True)
class LdaSection(Options):
    """The matrix of a fixed-affine-layer, estimated from training examples if there is no file of its name."""

    estimate: bool = option(
        True, Boolean(), "only the matrix that the file of the model lacks; false: the identity", steers=False
    )
    examples: int = option(
        10_000, _SIZE, "training examples of each output node that are looked at, at most", steers=False
    )
    rand_prune: float = again(LdaStatsOptions, "rand_prune", 0.0, steers=False)
    within_class_factor: float = again(FeatureTransformOptions, "within_class_factor", 0.001, steers=False)
    max_singular_value: float = again(FeatureTransformOptions, "max_singular_value", 5.0, steers=False)


@dataclass(frozen=True)
class ValidationSection(Options):
    """Objective on held-out examples."""

    every: int = option(0, _COUNT, "minibatches between; 0: at the end of each epoch only", steers=False)


@dataclass(frozen=True)
class CombinationSection(Options):
    """Models from the end of training, averaged as is best for held-out examples (Kaldi: nnet3-combine)."""

    models: int = option(20, _COUNT, "how many are kept for it; 0: the last model is the final one")
    part: float = option(0.5, Number(bounds(above=0, maximum=1)), "of training that they are taken from, its end")
    max_objective_evaluations: int = option(30, _SIZE, "averages that are tried")


@dataclass(frozen=True)
class PriorsSection(Options):
    """Priors of the pdfs in the final acoustic model."""

    adjust: bool = option(
        True,
        Boolean(),
        "the mean posterior of training examples, if the run began with an .mdl and 'output' is trained to give "
        "log-probabilities: not in sequence training; false: the priors stay",
        steers=False,
    )
    examples: int = option(20_000, _SIZE, "training examples that are looked at, at most", steers=False)


@dataclass(frozen=True)
class CheckpointsSection(Options):
    """What a run goes on from."""

    every: int = option(1000, _SIZE, "minibatches between", steers=False)
    keep: int = option(2, _SIZE, "older ones are removed", steers=False)


@dataclass(frozen=True)
class DistributedSection(Options):
    """With torchrun."""

    mode: str = option(
        "all-reduce", choice("all-reduce", "averaging"), "of gradients each minibatch, or of models each round"
    )
    round: int = option(400, _SIZE, "minibatches of each process between averages (averaging), and between shrinkings")
    halve_first_round: bool = option(
        False,
        Boolean(),
        "minibatches of the first round (of the first epoch) have half the size and are twice as many, and "
        "max-param-change is divided by the square root of 2, as in Kaldi's scripts",
    )
    num_jobs_initial: int = option(
        0, _COUNT, "models that are averaged (averaging), at the beginning of training; 0: one of each process"
    )
    num_jobs_final: int = option(0, _COUNT, "at its end; each process trains its part of them one after the other")
    meeting_timeout: float = option(300.0, _POSITIVE, "seconds that processes wait until all have begun", steers=False)
    timeout: float = option(1800.0, _POSITIVE, "seconds that processes wait for each other", steers=False)
    check: bool = option(
        False,
        Boolean(),
        "compare what processes are about to send each other (slow): where they fall out of step",
        steers=False,
    )

    def conflicts(self) -> Iterator[tuple[str, str]]:
        if (self.num_jobs_initial == 0) != (self.num_jobs_final == 0):
            yield "num_jobs_final", "num-jobs-initial and num-jobs-final go together: give both or none"
        if self.num_jobs_final and self.mode != "averaging":
            yield "num_jobs_final", 'expected mode = "averaging": jobs are models that are averaged'


@dataclass(frozen=True)
class OutputSection(Options):
    """What is written, and what is said."""

    folder: str = option("", Text(), "where all goes", steers=False)
    print_every: int = option(100, _SIZE, "minibatches of a line in the log", steers=False)
    curves: bool = option(True, Boolean(), "curves.png, if matplotlib is installed", steers=False)
    tensorboard: bool = option(True, Boolean(), "scalars for TensorBoard, if it is installed", steers=False)
