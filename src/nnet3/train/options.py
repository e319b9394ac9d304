"""Options of the trainer, with Kaldi's names and defaults (docs/training.md)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from nnet3.compiler import NO_DERIV_TIMES, CompileOptions
from nnet3.errors import TrainingError


@dataclass(frozen=True)
class TrainerOptions:
    """How a minibatch becomes a step. Raises TrainingError for values that cannot be meant."""

    zero_component_stats: bool = True
    store_component_stats: bool = True
    print_interval: int = 100
    max_param_change: float = 2.0
    momentum: float = 0.0
    l2_regularize_factor: float = 1.0
    batchnorm_stats_scale: float = 0.8
    backstitch_training_scale: float = 0.0
    backstitch_training_interval: int = 1
    seed: int = 0
    #: Training stops when more minibatches than this had to be skipped because something in them was not finite.
    max_skipped: int = 100
    #: Derivatives at times outside count as zero (truncated back-propagation), see `CompileOptions`; None: no limit.
    min_deriv_time: int | None = None
    max_deriv_time: int | None = None
    max_deriv_time_relative: int | None = None

    def __post_init__(self) -> None:
        checks = {
            "print_interval must be > 0": self.print_interval > 0,
            "max_param_change must be >= 0": self.max_param_change >= 0,
            "momentum must be >= 0 and < 1": 0 <= self.momentum < 1,
            "batchnorm_stats_scale must be >= 0 and <= 1": 0 <= self.batchnorm_stats_scale <= 1,
            "backstitch_training_scale must be >= 0": self.backstitch_training_scale >= 0,
            "backstitch_training_interval must be > 0": self.backstitch_training_interval > 0,
            "max_skipped must be >= 0": self.max_skipped >= 0,
        }
        for rule, holds in checks.items():
            if not holds:
                raise TrainingError(f"{rule}, got {getattr(self, rule.split()[0])}")
        if self.backstitch_training_scale > 0 and self.momentum > 0:
            raise TrainingError("backstitch needs momentum = 0")
        self.compile_options()

    def compile_options(self, others: CompileOptions | None = None) -> CompileOptions:
        """The compiler's options, with these derivative times where they are given. Raises ArgumentError."""
        given = {name: getattr(self, name) for name in NO_DERIV_TIMES if getattr(self, name) is not None}
        return replace(others or CompileOptions(), **given)
