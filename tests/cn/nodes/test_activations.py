"""Functions element by element, and softmax, against autograd and finite differences."""

from __future__ import annotations

import pytest
import torch

from nnet3 import cn
from tests.cn.check_node import check_node, random

X = cn.input("x", 4)
FORMULAS = {
    cn.negate: lambda x: -x,
    cn.sigmoid: lambda x: 1 / (1 + torch.exp(-x)),
    cn.tanh: lambda x: (torch.exp(x) - torch.exp(-x)) / (torch.exp(x) + torch.exp(-x)),
    cn.relu: lambda x: x * (x > 0),
    cn.exp: lambda x: torch.e**x,
    cn.softmax: lambda x: torch.exp(x) / torch.exp(x).sum(0),
    cn.log_softmax: lambda x: x - torch.log(torch.exp(x).sum(0)),
    cn.copy: lambda x: x * 1,
}


@pytest.mark.parametrize("function", FORMULAS, ids=lambda function: function.__name__)
def test_value_and_gradient(function) -> None:
    check_node(function(X), [random(4, 5)], FORMULAS[function])


def test_log_is_the_natural_logarithm() -> None:
    check_node(cn.log(X), [random(4, 5, positive=True)], lambda x: torch.log2(x) * 0.6931471805599453)


def test_values_without_samples() -> None:
    check_node(cn.tanh(cn.parameter("W", (4, 3))), [random(4, 3)], torch.tanh)


def test_softmax_of_large_values_is_finite() -> None:
    large = 1000 * random(4, 5)
    check_node(cn.softmax(X), [large], lambda x: torch.softmax(x, 0), differences=False)
    check_node(cn.log_softmax(X), [large], lambda x: torch.log_softmax(x, 0), differences=False)


def test_relu_has_gradient_zero_at_zero() -> None:
    check_node(cn.relu(X), [torch.zeros(4, 2, dtype=torch.float64)], lambda x: 0 * x, differences=False)
