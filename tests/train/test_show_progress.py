"""Differences of networks, and what they do for the objective."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from nnet3.errors import TrainingError
from nnet3.model.nnet import Nnet
from nnet3.train import MatrixTarget, Minibatch, NetworkInput, TorchLoss, evaluate
from nnet3.training.train.minibatch import grid
from nnet3.training.train.show_progress import by_component, objective_changes, parameter_differences

CONFIG = """
input-node name=input dim=2
component name=a type=NaturalGradientAffineComponent input-dim=2 output-dim=3
component-node name=a component=a input=input
component name=tanh type=TanhComponent dim=3
component-node name=tanh component=tanh input=a
component name=b type=AffineComponent input-dim=3 output-dim=2
component-node name=b component=b input=tanh
output-node name=output input=b objective=quadratic
"""


def data() -> list[Minibatch]:
    generator = torch.Generator().manual_seed(1)
    rows = grid(20, [0])
    x, y = (torch.randn(20, 2, generator=generator) for _ in range(2))
    return [Minibatch([NetworkInput("input", rows, x)], [MatrixTarget("output", rows, y)])]


def test_differences_are_norms_by_component() -> None:
    old = Nnet.from_config(CONFIG, seed=1)
    new = old.copy()
    new.components["a"].parameters()["bias_params"].add_(torch.tensor([3.0, 4.0, 0.0]))
    norms, relative = parameter_differences(old, new)
    assert norms == pytest.approx({"a": 5.0, "b": 0.0}, abs=1e-6)
    assert relative["a"] == pytest.approx(5.0 / math.sqrt(old.squared_norms()["a"]))
    assert by_component({"a": 0.5, "b": 1e-7}) == "[ a:0.5 b:1e-07 ]"


def test_relative_to_nothing() -> None:
    old, new = Nnet.from_config(CONFIG), Nnet.from_config(CONFIG, seed=2)
    old.scale_(0.0)
    _, relative = parameter_differences(old, new)
    assert set(relative.values()) == {math.inf}
    assert all(math.isnan(value) for value in parameter_differences(old, old)[1].values())


@pytest.mark.parametrize("seed", range(10))
def test_changes_of_the_objective_add_up(seed: int) -> None:
    """Over many short segments their sum over components is what the objective has changed by."""
    old = Nnet.from_config(CONFIG, seed=seed)
    new = old.copy()
    torch.manual_seed(seed)
    for buffer in new.flat_parameters():
        buffer.add_(torch.randn_like(buffer), alpha=0.3)
    lines: list[str] = []
    changes = objective_changes(old, new, data(), num_segments=20, say=lines.append)
    first, last = (evaluate(net, data())["output"].average for net in (old, new))
    assert sum(changes.values()) == pytest.approx(last - first, abs=1e-3 + 0.01 * abs(last - first))
    assert lines[0].startswith("Overall objective for 'output' is -")
    assert lines[1].startswith("At position 0.025, objf per frame is -")
    assert len(lines) == 40
    assert new.components["a"].updatable.is_gradient is False  # type: ignore[union-attr]


def test_changes_are_per_unit_of_the_weight_of_all_outputs_and_minibatches() -> None:
    old = Nnet.from_config(CONFIG + "output-node name=again input=b objective=quadratic\n", seed=1)
    new = old.copy()
    new.scale_(0.9)
    (once,) = data()
    both = Minibatch(once.inputs, [*once.targets, replace(once.targets[0], name="again")])  # type: ignore[type-var]
    expected = objective_changes(old, new, [once])
    assert expected["b"] != 0
    lines: list[str] = []
    assert objective_changes(old, new, [both, both], say=lines.append) == pytest.approx(expected)
    starts = [line.partition(" is -")[0] for line in lines]
    position = "At position 0.5, objf per frame"  # of 'output' alone, as in Kaldi
    assert starts == ["Overall objective for 'again'", "Overall objective for 'output'", position]


def test_objective_and_modes_are_as_asked() -> None:
    """Without statistics batch-norm in test mode is another function; a weight of one half doubles all changes."""
    config = CONFIG.replace("input=tanh", "input=norm").replace(
        "component name=b ",
        "component name=norm type=BatchNormComponent dim=3\ncomponent-node name=norm component=norm input=drop\n"
        "component name=drop type=DropoutComponent dim=3 dropout-proportion=0.5\n"
        "component-node name=drop component=drop input=tanh\ncomponent name=b ",
    )
    old = Nnet.from_config(config, seed=1)
    old.components["norm"].count = 1.0  # type: ignore[attr-defined]
    old.components["norm"].stats_sumsq.fill_(3.0)  # type: ignore[attr-defined]
    new = old.copy()
    new.scale_(0.9)

    def changes(**options: Any) -> float:
        return sum(objective_changes(old, new, data(), **options).values())

    modes = {changes(batchnorm_test_mode=one, dropout_test_mode=two) for one in (True, False) for two in (True, False)}
    assert len(modes) == 4
    assert changes() == changes(batchnorm_test_mode=True, dropout_test_mode=True)
    twice = TorchLoss(lambda output, target: (output - target).square().sum())
    assert changes(objective=lambda nnet: twice) == pytest.approx(2 * changes())


def test_no_examples_are_an_error() -> None:
    nnet = Nnet.from_config(CONFIG)
    with pytest.raises(TrainingError, match="no examples"):
        objective_changes(nnet, nnet, [])
