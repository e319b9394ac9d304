"""Averages of the last models, chosen on held-out data."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from nnet3.errors import TrainingError
from nnet3.nnet import Nnet
from nnet3.train import MatrixTarget, Minibatch, NetworkInput, TorchLoss
from nnet3.train.combine import combine, recompute_statistics
from nnet3.train.minibatch import grid
from nnet3.train.objectives import ObjectiveByNode
from train.networks import differing, everything, many, random_minibatch

CONFIG = """
input-node name=input dim=1
component name=scale type=PerElementScaleComponent dim=1
component-node name=scale component=scale input=input
output-node name=output input=scale objective=quadratic
"""
ROWS = grid(1, [0])
DATA = [Minibatch([NetworkInput("input", ROWS, torch.ones(1, 1))], [MatrixTarget("output", ROWS, torch.zeros(1, 1))])]


def models(*values: float) -> list[Callable[[], Nnet]]:
    """Networks that multiply by these numbers; 0 is the best one."""

    def make(value: float) -> Nnet:
        nnet = Nnet.from_config(CONFIG)
        nnet.flat_parameters()[0].fill_(value)
        return nnet

    return [lambda value=value: make(value) for value in values]  # type: ignore[misc]


def combined(*values: float, **options: Any) -> tuple[float, list[str]]:
    lines: list[str] = []
    nnet = combine(models(*values), DATA, say=lines.append, **options)
    return float(nnet.flat_parameters()[0]), lines


def test_the_best_mean_of_the_first_models() -> None:
    value, lines = combined(3.0, -1.0, -2.0, 5.0)  # means 3, 1, 0, 1.25
    assert value == pytest.approx(0.0, abs=1e-6)
    assert lines[0] == "objective function using the last model is -4.5"
    assert lines[1] == "Combining last 2 models, objective function is -0.5"
    assert lines[3] == "Combining last 4 models, objective function is -0.78125"
    assert lines[4].startswith("Using the model averaged over last 3 models, objective function is ")


def test_of_equals_the_first_wins() -> None:
    value, lines = combined(1.0, -3.0)
    assert value == 1.0
    assert "last 1 models" in lines[-1]


def test_few_evaluations() -> None:
    _, lines = combined(*(1.0 for _ in range(7)), max_objective_evaluations=3)
    assert [line.split()[2] for line in lines[1:-1]] == ["3", "6", "7"]
    _, lines = combined(*(1.0 for _ in range(7)), max_objective_evaluations=1)
    assert [line.split()[2] for line in lines[1:-1]] == ["7"]


def test_an_average_that_is_not_finite_is_never_the_best() -> None:
    value, _ = combined(1.0, math.nan)
    assert value == 1.0
    with pytest.raises(TrainingError, match="no average of the models has a finite objective"):
        combined(math.nan)


def test_what_is_best_is_for_the_objective_to_say() -> None:
    def far(nnet: Nnet) -> TorchLoss:
        return TorchLoss(lambda output, target: -(output - target).square().sum())

    assert combined(3.0, -1.0, -2.0, 5.0, objective=far)[0] == 3.0
    assert combined(3.0, -1.0, 5.0, 9.0, objective=far)[0] == 4.0


def test_statistics_are_for_the_outputs_of_their_own_objective() -> None:
    asked: list[str] = []

    def named(name: str) -> Callable[[Nnet], ObjectiveByNode]:
        def make(nnet: Nnet) -> ObjectiveByNode:
            asked.append(name)
            return ObjectiveByNode(nnet)

        return make

    nnet, data = many(), [random_minibatch(1)]
    combine([lambda: nnet] * 2, data, named("value"), statistics_objective=named("statistics"), say=lambda line: None)
    assert asked == ["value", "value", "statistics"]
    combine([lambda: nnet], data, named("both"), say=lambda line: None)
    assert asked[3:] == ["both", "both"]
    combine(models(1.0), DATA, named("no statistics"), say=lambda line: None)
    assert asked[5:] == ["no statistics"]


def test_modes_of_the_average() -> None:
    nnet, data = many(), [random_minibatch(1)]
    recompute_statistics(nnet, data)
    result = combine([lambda: nnet], data, batchnorm_test_mode=True, dropout_test_mode=False, say=lambda line: None)
    assert (result.components["norm"].test_mode, result.components["drop"].test_mode) == (True, False)
    assert result.components["norm"].count == 20.0  # type: ignore[attr-defined]


def test_statistics_of_batchnorm_are_those_of_the_examples() -> None:
    nnet, data = many(), [random_minibatch(1), random_minibatch(2)]
    result = combine([lambda: nnet], data, say=lambda line: None)
    norm: Any = result.components["norm"]
    assert norm.count == 40.0
    again = result.copy()
    recompute_statistics(again, data)
    assert differing(everything(result), everything(again)) == []
    assert (norm.test_mode, result.components["drop"].test_mode) == (False, True)


def test_a_model_of_another_form_is_numbered() -> None:
    other = Nnet.from_config(CONFIG.replace("=scale", "=other"))
    with pytest.raises(TrainingError, match="model 3 of 3: networks to be added must have the same components"):
        combine([*models(1.0, 2.0), lambda: other], DATA)


def test_nothing_to_combine() -> None:
    with pytest.raises(TrainingError, match="0 models and 1 examples"):
        combine([], DATA)
    with pytest.raises(TrainingError, match="max_objective_evaluations must be > 0, got 0"):
        combined(1.0, max_objective_evaluations=0)
