"""Criteria and cosine: values, gradients of both operands, and counts that have none."""

from __future__ import annotations

import pytest
import torch
from check_node import check_node, random, run_forward

from nnet3 import cn
from nnet3.errors import GradientError, ShapeError

x = cn.input("x", 4)
y = cn.input("y", 4)


def distribution(seed: int) -> torch.Tensor:
    return torch.softmax(random(4, 5, seed=seed), 0)


def test_square_error() -> None:
    node = cn.square_error(x, y)
    check_node(
        node, [random(4, 5), random(4, 5, seed=1)], lambda a, b: 0.5 * torch.trace((a - b) @ (a - b).T)[None, None]
    )


def test_cross_entropy() -> None:
    node = cn.cross_entropy(x, y)
    check_node(node, [distribution(0), distribution(1)], lambda a, b: -(a * b.log()).sum()[None, None])


def test_cross_entropy_of_classes_without_weight() -> None:
    labels = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0], [0.0, 0.0]], dtype=torch.float64)
    posterior = torch.tensor([[0.5, 0.0], [0.5, 1.0], [0.0, 0.0], [0.0, 0.0]], dtype=torch.float64)
    assert float(run_forward(cn.cross_entropy(x, y), [labels, posterior])) == pytest.approx(0.6931471805599453)


@pytest.mark.parametrize("labels", [distribution(0), random(4, 5, positive=True)], ids=["distribution", "any weights"])
def test_cross_entropy_with_softmax(labels) -> None:
    node = cn.cross_entropy_with_softmax(x, y)
    check_node(node, [labels, random(4, 5)], lambda a, b: -(a * torch.log_softmax(b, 0)).sum()[None, None])


def test_cos() -> None:
    def formula(a, b):
        return torch.nn.functional.cosine_similarity(a, b, dim=0)[None]

    check_node(cn.cos(x, y), [random(4, 5), random(4, 5, seed=1)], formula)


def test_cos_of_zero_is_zero() -> None:
    zero = torch.zeros(4, 5, dtype=torch.float64)
    assert run_forward(cn.cos(x, y), [zero, random(4, 5)]).abs().max() == 0


def test_classification_error_counts_columns() -> None:
    a = torch.tensor([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 0]], dtype=torch.float64)
    b = torch.tensor([[3.0, 1, 0], [1, 0, 0], [0, 0, 9], [0, 0, 0]], dtype=torch.float64)
    node = cn.classification_error(x, y)
    assert float(run_forward(node, [a, b])) == 1
    with pytest.raises(GradientError, match="classification_error has no gradient"):
        node.operation.check_gradient(0)


def test_criteria_need_equal_shapes() -> None:
    with pytest.raises(ShapeError, match="equal shape"):
        cn.square_error(x, cn.input("z", 5))
