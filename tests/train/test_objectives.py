"""Sums of statistics."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import Tensor

from nnet3.components import RandomSource
from nnet3.errors import TrainingError
from nnet3.model.nnet import Nnet
from nnet3.training.train.minibatch import MatrixTarget, grid
from nnet3.training.train.objectives import LinearObjective, ObjectiveByNode, ObjectiveStats, TorchLoss, objective_name
from tests.train.objective_checks import evaluate, sparse


def test_sums_of_statistics_have_their_averages() -> None:
    total = ObjectiveStats()
    assert (total.average, total.average_auxiliary, total.accuracy) == (0.0, 0.0, 0.0)
    for _ in range(2):
        total.add(ObjectiveStats(-3.0, -0.5, 2.0, 1.0, 4.0))
    assert (total.objective, total.average, total.average_auxiliary, total.accuracy) == (-6.0, -1.5, -0.25, 0.25)
    assert ObjectiveStats(*total.numbers()) == total


@pytest.mark.parametrize("make", [torch.tensor, sparse])
def test_linear_by_hand(make: object) -> None:
    target = make([[1.0, 0.0], [0.25, 0.5]])  # type: ignore[operator]
    stats, deriv = evaluate("linear", torch.tensor([[-0.1, -2.4], [-0.4, -2.0]]), target)
    assert (stats.objective, stats.weight) == pytest.approx((-0.1 - 0.1 - 1.0, 1.75))
    assert stats.average == pytest.approx(-1.2 / 1.75)
    assert deriv.tolist() == [[1.0, 0.0], [0.25, 0.5]]


def test_linear_derivatives_are_those_of_autograd() -> None:
    torch.manual_seed(0)
    y = torch.randn(5, 4, dtype=torch.float64, requires_grad=True)
    p = torch.rand(5, 4, dtype=torch.float64)
    stats, deriv = evaluate("linear", y.detach(), p)
    value = (y * p).sum()
    value.backward()
    torch.testing.assert_close(deriv, y.grad)
    assert stats.objective == pytest.approx(value.item())


@pytest.mark.parametrize("make", [torch.tensor, sparse])
def test_quadratic_by_hand(make: object) -> None:
    stats, deriv = evaluate("quadratic", torch.tensor([[1.0, 2.0]]), make([[0.0, 4.0]]))  # type: ignore[operator]
    assert (stats.objective, stats.weight) == (-2.5, 1.0)
    assert deriv.tolist() == [[-1.0, 2.0]]


def test_a_step_along_the_derivative_comes_nearer() -> None:
    torch.manual_seed(0)
    y, p = torch.randn(3, 4), torch.randn(3, 4)
    before, deriv = evaluate("quadratic", y, p)
    after, _ = evaluate("quadratic", y + 0.1 * deriv, p)
    assert before.objective < after.objective < 0


def test_quadratic_derivatives_are_those_of_autograd() -> None:
    torch.manual_seed(0)
    y = torch.randn(5, 4, dtype=torch.float64, requires_grad=True)
    p = torch.rand(5, 4, dtype=torch.float64)
    stats, deriv = evaluate("quadratic", y.detach(), p)
    value = -0.5 * (p - y).square().sum()
    value.backward()
    torch.testing.assert_close(deriv, y.grad)
    assert stats.objective == pytest.approx(value.item())


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


def test_sizes_must_agree() -> None:
    with pytest.raises(TrainingError, match=r"output 'output' is \(2, 3\), its target \(2, 4\)"):
        evaluate("linear", torch.zeros(2, 3), torch.zeros(2, 4))


def test_a_target_of_another_kind() -> None:
    @dataclass
    class Words:
        name: str
        indexes: np.ndarray
        is_finite: bool = True

    words = Words("output", np.zeros((1, 3), np.int32))
    with pytest.raises(TrainingError, match="'output' wants a matrix, got a Words"):
        LinearObjective().evaluate(words, [torch.zeros(1, 2)], rng=RandomSource(0), with_derivs=True)


@pytest.mark.parametrize("make", [torch.tensor, sparse])
def test_cross_entropy_is_the_linear_objective_of_log_probabilities(make: object) -> None:
    torch.manual_seed(0)
    target = make([[0.0, 1.0, 0.0], [0.5, 0.0, 0.5]])  # type: ignore[operator]
    logits = torch.randn(2, 3, requires_grad=True)
    log_probabilities = logits.log_softmax(1)
    stats, deriv = evaluate(TorchLoss(torch.nn.CrossEntropyLoss(reduction="sum")), logits.detach(), target)
    wanted, by_output = evaluate("linear", log_probabilities.detach(), target)
    (by_logits,) = torch.autograd.grad(log_probabilities, logits, by_output)
    assert (stats.objective, stats.weight) == (pytest.approx(wanted.objective), 2.0)
    torch.testing.assert_close(deriv, by_logits)


def test_without_derivatives_and_in_inference_mode() -> None:
    loss = TorchLoss(torch.nn.MSELoss(reduction="sum"))
    with torch.inference_mode():
        stats, _ = evaluate(loss, torch.ones(2, 1), torch.zeros(2, 1), with_derivs=False)
        assert stats.objective == -2.0
        _, deriv = evaluate(loss, torch.ones(2, 1), torch.zeros(2, 1))
    assert deriv.tolist() == [[-2.0], [-2.0]]


def test_a_loss_is_one_number() -> None:
    def loss(output: Tensor, target: Tensor) -> Tensor:
        return output - target

    with pytest.raises(TrainingError, match=r"one number, got \(2, 3\)"):
        evaluate(TorchLoss(loss), torch.ones(2, 3), torch.ones(2, 3))
