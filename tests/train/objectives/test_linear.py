"""The linear objective by hand, dense and sparse."""

from __future__ import annotations

import pytest
import torch

from tests.train.objectives.check import evaluate, sparse


@pytest.mark.parametrize("make", [torch.tensor, sparse])
def test_by_hand(make: object) -> None:
    target = make([[1.0, 0.0], [0.25, 0.5]])  # type: ignore[operator]
    stats, deriv = evaluate("linear", torch.tensor([[-0.1, -2.4], [-0.4, -2.0]]), target)
    assert (stats.objective, stats.weight) == pytest.approx((-0.1 - 0.1 - 1.0, 1.75))
    assert stats.average == pytest.approx(-1.2 / 1.75)
    assert deriv.tolist() == [[1.0, 0.0], [0.25, 0.5]]


def test_derivatives() -> None:
    torch.manual_seed(0)
    y = torch.randn(5, 4, dtype=torch.float64, requires_grad=True)
    p = torch.rand(5, 4, dtype=torch.float64)
    stats, deriv = evaluate("linear", y.detach(), p)
    value = (y * p).sum()
    value.backward()
    torch.testing.assert_close(deriv, y.grad)
    assert stats.objective == pytest.approx(value.item())
