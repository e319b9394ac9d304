"""Losses of PyTorch: the same as our own where there is one, and what is no loss."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from nnet3.errors import TrainingError
from nnet3.train.objectives import TorchLoss
from tests.train.objectives.check import evaluate, sparse


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
