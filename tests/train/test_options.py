"""Options of the trainer: Kaldi's defaults, and values that cannot be meant."""

from __future__ import annotations

import pytest

from nnet3 import CompileOptions
from nnet3.errors import TrainingError
from nnet3.train import TrainerOptions


def test_defaults_are_kaldis() -> None:
    options = TrainerOptions()
    assert (options.zero_component_stats, options.store_component_stats, options.print_interval) == (True, True, 100)
    assert (options.max_param_change, options.momentum, options.l2_regularize_factor) == (2.0, 0.0, 1.0)
    assert (options.batchnorm_stats_scale, options.backstitch_training_scale) == (0.8, 0.0)
    assert (options.backstitch_training_interval, options.seed, options.max_skipped) == (1, 0, 100)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"momentum": 1.0}, "momentum must be >= 0 and < 1, got 1.0"),
        ({"max_param_change": -1.0}, "max_param_change must be >= 0, got -1.0"),
        ({"max_param_change": float("nan")}, "max_param_change must be a finite number, got nan"),
        ({"print_interval": 0}, "print_interval must be >= 1, got 0"),
        ({"batchnorm_stats_scale": 1.1}, "batchnorm_stats_scale must be within \\[0, 1\\], got 1.1"),
        ({"batchnorm_stats_scale": -0.1}, "batchnorm_stats_scale must be within \\[0, 1\\], got -0.1"),
        ({"momentum": -0.1}, "momentum must be >= 0 and < 1, got -0.1"),
        ({"max_param_change": -0.1}, "max_param_change must be >= 0, got -0.1"),
        ({"backstitch_training_scale": -0.1}, "backstitch_training_scale must be >= 0, got -0.1"),
        ({"backstitch_training_interval": 0}, "backstitch_training_interval must be >= 1, got 0"),
        ({"backstitch_training_scale": 0.3, "momentum": 0.1}, "backstitch needs momentum = 0"),
        ({"max_skipped": -1}, "max_skipped must be >= 0, got -1"),
    ],
)
def test_options_that_cannot_be_meant(options: dict[str, float], message: str) -> None:
    with pytest.raises(TrainingError, match=message):
        TrainerOptions(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "options",
    [
        {"momentum": 0.0, "backstitch_training_scale": 0.3},
        {"momentum": 0.99, "backstitch_training_scale": 0.0},
        {"max_param_change": 0.0},
        {"print_interval": 1},
        {"batchnorm_stats_scale": 0.0},
        {"batchnorm_stats_scale": 1.0},
        {"max_skipped": 0},
    ],
    ids=str,
)
def test_extremes_that_can_be_meant(options: dict[str, float]) -> None:
    assert vars(TrainerOptions(**options)).items() >= options.items()  # type: ignore[arg-type]


def test_derivative_times_are_options_of_the_compiler() -> None:
    given = TrainerOptions(min_deriv_time=-3, max_deriv_time_relative=4)
    assert given.compile_options() == CompileOptions(min_deriv_time=-3, max_deriv_time_relative=4)
    others = CompileOptions(optimize=False, max_deriv_time=7)
    assert TrainerOptions().compile_options(others) == others
    both = TrainerOptions(max_deriv_time=5, min_deriv_time=0).compile_options(others)
    assert both == CompileOptions(optimize=False, max_deriv_time=5, min_deriv_time=0)
    assert TrainerOptions().compile_options(CompileOptions(level=1)).level == 1
    assert TrainerOptions(optimization_level=3).compile_options(CompileOptions(level=1)).level == 3
    with pytest.raises(TrainingError, match="min_deriv_time is 5, after max_deriv_time, 4"):
        TrainerOptions(min_deriv_time=5, max_deriv_time=4)
