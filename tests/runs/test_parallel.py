"""What processes add up, and an objective over all output nodes."""

from __future__ import annotations

import pytest
import torch

import nnet3
from nnet3.runs.parallel import evaluate_all_outputs, sum_over_processes
from nnet3.runs.world import World
from nnet3.train.minibatch import MatrixTarget, Minibatch, NetworkInput, grid
from nnet3.train.objectives import ObjectiveByNode
from tests.runs.thread_world import in_threads


def test_numbers_are_summed_each_for_itself_and_exactly() -> None:
    def work(world: World) -> list[float]:
        return sum_over_processes(world, [world.rank, 0.1, 2.0**40 + world.rank])

    assert in_threads(3, work) == [[3.0, pytest.approx(0.3, rel=1e-15), 3 * 2.0**40 + 3]] * 3
    assert sum_over_processes(World(), [3, 0.1]) == [3.0, 0.1]


def test_an_objective_is_the_sum_over_outputs_and_minibatches_in_test_mode() -> None:
    nnet = nnet3.Nnet.from_config(
        """
        input-node name=input dim=1
        component name=dropout type=DropoutComponent dim=1 dropout-proportion=0.9
        component-node name=dropout component=dropout input=input
        output-node name=output input=dropout
        output-node name=other input=input
        """
    )
    indexes = grid(1, range(2))

    def minibatch(*names: str) -> Minibatch:
        x, p = torch.tensor([[1.0], [2.0]]), torch.tensor([[1.0], [3.0]])
        return Minibatch([NetworkInput("input", indexes, x)], [MatrixTarget(name, indexes, p) for name in names])

    stats = evaluate_all_outputs(nnet, ObjectiveByNode(nnet), [minibatch("output"), minibatch("output", "other")])
    assert stats.objective == pytest.approx(2 * 0.1 * 7 + 7)  # what dropout leaves on average, not what it draws
    assert stats.weight == 3 * 4
    assert not nnet.components["dropout"].test_mode
