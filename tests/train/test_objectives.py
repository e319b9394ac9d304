"""Objectives by hand, and their derivatives by automatic differentiation."""

from __future__ import annotations

import pytest
import torch

from nnet3.errors import TrainingError
from nnet3.train.objectives import ObjectiveStats, objective


def test_linear_by_hand() -> None:
    stats, deriv = objective("linear", torch.tensor([[-0.1, -2.4]]), torch.tensor([[1.0, 0.0]]))
    assert (stats.objective, stats.weight, stats.average) == pytest.approx((-0.1, 1.0, -0.1))
    assert deriv.tolist() == [[1.0, 0.0]]


def test_quadratic_by_hand() -> None:
    stats, deriv = objective("quadratic", torch.tensor([[1.0, 2.0]]), torch.tensor([[0.0, 4.0]]))
    assert (stats.objective, stats.weight) == (-2.5, 1.0)
    assert deriv.tolist() == [[-1.0, 2.0]]


@pytest.mark.parametrize("kind", ["linear", "quadratic"])
def test_derivatives(kind: str) -> None:
    y = torch.randn(5, 4, dtype=torch.float64, requires_grad=True)
    p = torch.rand(5, 4, dtype=torch.float64)
    _, deriv = objective(kind, y.detach(), p)
    value = (y * p).sum() if kind == "linear" else -0.5 * (p - y).square().sum()
    value.backward()
    torch.testing.assert_close(deriv, y.grad)
    assert objective(kind, y.detach(), p)[0].objective == pytest.approx(value.item())


def test_accuracy_is_weighted_and_leaves_out_rows_without_labels() -> None:
    y = torch.tensor([[2.0, 1.0], [2.0, 1.0], [0.0, 5.0], [3.0, 3.0]])
    p = torch.tensor([[1.0, 0.0], [0.0, 3.0], [0.0, 0.0], [2.0, 0.0]])
    stats, _ = objective("linear", y, p)
    assert (stats.correct, stats.counted) == (3.0, 6.0)
    assert stats.accuracy == 0.5


def test_sums() -> None:
    total = ObjectiveStats()
    assert (total.average, total.accuracy) == (0.0, 0.0)
    for _ in range(2):
        total.add(ObjectiveStats(-3.0, 2.0, 1.0, 4.0))
    assert (total.objective, total.average, total.accuracy) == (-6.0, -1.5, 0.25)


def test_sizes_must_agree() -> None:
    with pytest.raises(TrainingError, match=r"the output is \(2, 3\), its supervision \(2, 4\)"):
        objective("linear", torch.zeros(2, 3), torch.zeros(2, 4))
