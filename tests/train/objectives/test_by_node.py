"""The objective that the line of an output node names."""

from __future__ import annotations

import pytest
import torch

from nnet3.components import RandomSource
from nnet3.errors import TrainingError
from nnet3.nnet import Nnet
from nnet3.train.minibatch import MatrixTarget, grid
from nnet3.train.objectives import ObjectiveByNode
from nnet3.train.objectives.by_node import objective_name

NNET = """
input-node name=input dim=2
output-node name=plain input=input
output-node name=linear input=input objective=linear
output-node name=quadratic input=input objective=quadratic
"""


def test_each_node_has_its_own() -> None:
    nnet = Nnet.from_config(NNET)
    assert [objective_name(nnet, name) for name in nnet.output_names] == ["linear", "linear", "quadratic"]
    values = []
    for name in nnet.output_names:
        target = MatrixTarget(name, grid(1, [0]), torch.tensor([[1.0, 2.0]]))
        objective = ObjectiveByNode(nnet)
        assert objective.outputs(target) == (name,)
        rng = RandomSource(0)
        (result,) = objective.evaluate(target, [torch.tensor([[3.0, 3.0]])], rng=rng, with_derivs=False)
        values.append(result.stats.objective)
    assert values == [9.0, 9.0, -2.5]


def test_a_node_that_is_no_output() -> None:
    with pytest.raises(TrainingError, match="'input' is no output node: the network has plain, linear, quadratic"):
        objective_name(Nnet.from_config(NNET), "input")
