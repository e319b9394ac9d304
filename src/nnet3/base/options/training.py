"""Options of a training step, with Kaldi's names and defaults (docs/training.md), and of LDA-like transforms."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from nnet3.base.options.compiling import DEFAULT_LEVEL, CompileOptions, DerivTimes
from nnet3.base.options.declaring import Options, again, option
from nnet3.base.text.values import Boolean, Integer, Number, at_least, bounds, within
from nnet3.errors import TrainingError

_COUNT, _SIZE, _NUMBER = Integer(at_least(0)), Integer(at_least(1)), Number(at_least(0))


@dataclass(frozen=True, kw_only=True)
class StepOptions(DerivTimes, error=TrainingError):
    """The step that a minibatch makes."""

    max_param_change: float = option(
        2.0, _NUMBER, "Most that all parameters may change in a minibatch, as a Euclidean norm (0: no limit)."
    )
    momentum: float = option(0.0, Number(bounds(minimum=0, below=1)), "0 <= momentum < 1.")
    l2_regularize_factor: float = option(
        1.0, _NUMBER, "Multiplies the l2-regularize of components: 1 / jobs whose models will be averaged."
    )
    batchnorm_stats_scale: float = option(
        0.8, Number(within(0, 1)), "Multiplies batch-norm statistics after each minibatch."
    )
    backstitch_training_scale: float = option(0.0, _NUMBER, "0: no backstitch.")
    backstitch_training_interval: int = option(1, _SIZE, "Minibatches per backstitch step.", unit="minibatches")
    max_skipped: int = option(
        100, _COUNT, "Stop if more minibatches than this have numbers that are not finite.", steers=False
    )
    optimization_level: int = again(
        *(CompileOptions, "level", DEFAULT_LEVEL),
        help="Passes of the optimizer up to this level; 3: values are kept for the backward pass, not computed again.",
        steers=False,
    )

    def conflicts(self) -> Iterator[tuple[str, str]]:
        yield from super().conflicts()
        if self.backstitch_training_scale > 0 and self.momentum > 0:
            yield "momentum", f"backstitch needs momentum = 0, got {self.momentum:g}"


@dataclass(frozen=True)
class TrainerOptions(StepOptions):
    """The trainer's way through minibatches. Raises TrainingError for values that cannot be meant."""

    zero_component_stats: bool = option(True, Boolean(), "Forget statistics first.")
    store_component_stats: bool = option(True, Boolean(), "Store statistics.")
    print_interval: int = option(100, _SIZE, "Minibatches per log line.", unit="minibatches", steers=False)
    seed: int = option(0, Integer(bits=64), "Seed of all that is random.", flag="srand")

    def compile_options(self, others: CompileOptions | None = None) -> CompileOptions:
        """Returns the compiler's options, with the given derivative times and level."""
        given: dict[str, Any] = {name: time for name, time in self.deriv_times().items() if time is not None}
        given |= {"level": self.optimization_level} if self.optimization_level != DEFAULT_LEVEL else {}
        return replace(others or CompileOptions(), **given)


@dataclass(frozen=True)
class LdaStatsOptions(Options):
    """Gathering the statistics of an LDA-like transform."""

    rand_prune: float = option(
        0.0, Number(at_least(0)), "Weights below it become it or 0, at random, for speed; 0: all stay."
    )


@dataclass(frozen=True)
class FeatureTransformOptions(Options, error=TrainingError):
    """Options by which an LDA-like transform is estimated. Names and defaults are Kaldi's."""

    dim: int = option(-1, Integer(), "Rows of the transform; 0 or less: as many as the features have.")
    within_class_factor: float = option(
        0.001, Number(at_least(0)), "How much variance within classes counts, beside that between them; 1: plain LDA."
    )
    max_singular_value: float = option(
        5.0, Number(), "Largest singular value of the transform; 0 or less: no such limit."
    )
    remove_offset: bool = option(True, Boolean(), "Append a column that makes the mean zero.")
