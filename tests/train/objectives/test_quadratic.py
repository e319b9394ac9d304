"""The quadratic objective by hand, dense and sparse, and that it pulls outputs towards their targets."""

from __future__ import annotations

import pytest
import torch

from tests.train.objectives.check import evaluate, sparse


@pytest.mark.parametrize("make", [torch.tensor, sparse])
def test_by_hand(make: object) -> None:
    stats, deriv = evaluate("quadratic", torch.tensor([[1.0, 2.0]]), make([[0.0, 4.0]]))  # type: ignore[operator]
    assert (stats.objective, stats.weight) == (-2.5, 1.0)
    assert deriv.tolist() == [[-1.0, 2.0]]


def test_a_step_along_the_derivative_comes_nearer() -> None:
    torch.manual_seed(0)
    y, p = torch.randn(3, 4), torch.randn(3, 4)
    before, deriv = evaluate("quadratic", y, p)
    after, _ = evaluate("quadratic", y + 0.1 * deriv, p)
    assert before.objective < after.objective < 0


def test_derivatives() -> None:
    torch.manual_seed(0)
    y = torch.randn(5, 4, dtype=torch.float64, requires_grad=True)
    p = torch.rand(5, 4, dtype=torch.float64)
    stats, deriv = evaluate("quadratic", y.detach(), p)
    value = -0.5 * (p - y).square().sum()
    value.backward()
    torch.testing.assert_close(deriv, y.grad)
    assert stats.objective == pytest.approx(value.item())
