"""Sums and norms over all elements."""

from __future__ import annotations

import pytest
import torch

from nnet3 import cn
from tests.cn.check_node import check_node, random

FORMULAS = {
    cn.sum_elements: lambda x: torch.einsum("ij->", x).reshape(1, 1),
    cn.l1_norm: lambda x: (x * x).sqrt().sum().reshape(1, 1),
    cn.l2_norm: lambda x: torch.trace(x @ x.T).sqrt().reshape(1, 1),
    cn.squared_norm: lambda x: torch.trace(x @ x.T).reshape(1, 1),
}


@pytest.mark.parametrize("function", FORMULAS, ids=lambda function: function.__name__)
@pytest.mark.parametrize("operand", [cn.input("x", 4), cn.parameter("W", (4, 5))], ids=["samples", "matrix"])
def test_value_and_gradient(function, operand) -> None:
    node = function(operand)
    assert node.shape.is_scalar
    check_node(node, [random(4, 5)], FORMULAS[function])


def test_the_norm_of_nothing_has_gradient_zero() -> None:
    zeros = torch.zeros(4, 5, dtype=torch.float64)
    check_node(cn.l2_norm(cn.input("x", 4)), [zeros], lambda x: (0 * x).sum().reshape(1, 1), differences=False)
