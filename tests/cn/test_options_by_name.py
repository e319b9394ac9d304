"""Options of parameters: those of all, and those of patterns."""

from __future__ import annotations

import pytest

from nnet3.base.options.network_training import NetworkTrainingOptions
from nnet3.cn.options_by_name import OptionsByName
from nnet3.errors import ArgumentError, TrainingError


def test_later_patterns_change_what_earlier_ones_say() -> None:
    settings = NetworkTrainingOptions(l2=0.5, max_change=2.0)
    own = {"lstm.*": {"l2": 0.25, "learning_rate_factor": 3.0}, "*.b": {"l2": 0.0}}
    by_name = OptionsByName(settings.of_all, own)
    found = {name: by_name.of(name) for name in ("W", "lstm.W", "lstm.b")}
    assert [each.l2 for each in found.values()] == [0.5, 0.25, 0.0]
    assert [each.learning_rate_factor for each in found.values()] == [1.0, 3.0, 3.0]
    assert {each.max_change for each in found.values()} == {2.0}
    by_name.check(["W", "lstm.W", "lstm.b"])
    with pytest.raises(TrainingError, match=r"no parameter has a name such as '\*\.b'; there is: W, lstm\.W"):
        by_name.check(["W", "lstm.W"])


def test_options_of_parameters_that_cannot_be() -> None:
    for wrong in ([("W", {})], {"W": 1.0}):
        with pytest.raises(ArgumentError, match="a mapping from names"):
            OptionsByName(NetworkTrainingOptions().of_all, wrong)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="a name or a pattern, got 3"):
        OptionsByName(NetworkTrainingOptions().of_all, {3: {}})  # type: ignore[dict-item]
    with pytest.raises(TrainingError, match="max_change must be"):
        OptionsByName(NetworkTrainingOptions().of_all, {"W": {"max_change": -1.0}})


def test_the_trainer_is_given_its_own() -> None:
    options = NetworkTrainingOptions(momentum=0.5, max_param_change=3.0, max_skipped=4).trainer_options(7)
    assert (options.momentum, options.max_param_change, options.seed) == (0.5, 3.0, 7)
    assert options.batchnorm_stats_scale == 1.0
    assert options.max_skipped > 1_000_000  # the run counts what is skipped
