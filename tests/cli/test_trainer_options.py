"""Options of verbs that train: their defaults are Kaldi's, and each gets to the trainer."""

from __future__ import annotations

import re
from typing import Any

import click
import pytest

from cli.declared import check_options
from cli.run_command import Cli
from nnet3.cli.trainer_options import trainer_options
from nnet3.cli.verb import verb
from nnet3.train import TrainerOptions

OPTIONS: dict[str, tuple[Any, Any]] = {
    "--srand": (0, None),
    "--zero-component-stats": (True, None),
    "--store-component-stats": (True, None),
    "--print-interval": (100, 1),
    "--max-param-change": (2.0, 0),
    "--momentum": (0.0, 0),
    "--l2-regularize-factor": (1.0, 0),
    "--batchnorm-stats-scale": (0.8, 0),
    "--backstitch-training-scale": (0.0, 0),
    "--backstitch-training-interval": (1, 1),
    "--max-skipped": (100, 0),
    "--read-cache": (None, None),
    "--write-cache": (None, None),
}


@pytest.mark.parametrize("name", ["train", "chain-train"])
def test_defaults_and_bounds(name: str) -> None:
    check_options(name, OPTIONS)


def _given(*words: str) -> dict[str, Any]:
    found: dict[str, Any] = {}

    @verb("some")
    @trainer_options
    def command(**options: Any) -> None:
        found.update(options)

    command.main([*words], standalone_mode=False)
    return found


def test_all_options_of_the_trainer() -> None:
    assert TrainerOptions(**_given()) == TrainerOptions()
    words = ["--srand=3", "--zero-component-stats=false", "--store-component-stats=false", "--print-interval=7"]
    words += ["--max-param-change=1.5", "--l2-regularize-factor=0.5", "--batchnorm-stats-scale=0.7"]
    words += ["--backstitch-training-scale=0.3", "--backstitch-training-interval=4", "--max-skipped=5"]
    words += ["--optimization.min-deriv-time=-2", "--optimization.max-deriv-time=9"]
    words += ["--optimization.max-deriv-time-relative=4"]
    assert TrainerOptions(**_given(*words)) == TrainerOptions(
        seed=3,
        zero_component_stats=False,
        store_component_stats=False,
        print_interval=7,
        max_param_change=1.5,
        l2_regularize_factor=0.5,
        batchnorm_stats_scale=0.7,
        backstitch_training_scale=0.3,
        backstitch_training_interval=4,
        max_skipped=5,
        min_deriv_time=-2,
        max_deriv_time=9,
        max_deriv_time_relative=4,
    )
    assert TrainerOptions(**_given("--momentum=0.5")).momentum == 0.5


@pytest.mark.parametrize("word", ["+-3", "--3"])
def test_a_time_is_a_whole_number(word: str) -> None:
    with pytest.raises(click.UsageError, match=rf"min-deriv-time takes a whole number, got '{re.escape(word)}'"):
        _given(f"--optimization.min-deriv-time={word}")


def test_caches_are_taken_and_said_to_be_ignored(cli: Cli, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", "nnet3")
    _given("--read-cache=a", "--write-cache=b", "--binary-write-cache=true")
    assert [record.getMessage() for record in caplog.records] == [
        "ignored: --read-cache=a, since compiling takes little here",
        "ignored: --write-cache=b, since compiling takes little here",
    ]
