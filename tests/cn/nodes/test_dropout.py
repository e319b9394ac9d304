"""Dropout: the part that is zero, the expectation, the gradient through the same mask."""

from __future__ import annotations

import pytest
import torch

from nnet3 import cn
from nnet3.errors import NetworkError
from tests.cn.check_node import check_node, random, state

y = cn.input("y", 40)


def test_rate_and_expectation() -> None:
    kernel = cn.dropout(0.3, y).operation.kernel(state())
    output = torch.empty(1000, 40)
    kernel.run_forward([torch.ones(1000, 40)], output, None)
    assert float((output == 0).float().mean()) == pytest.approx(0.3, abs=0.01)
    assert float(output.mean()) == pytest.approx(1, abs=0.02)


def test_gradient_uses_the_mask_of_the_value() -> None:
    mask = torch.empty(40, 5, dtype=torch.float64)
    cn.dropout(0.4, y).operation.kernel(state()).run_forward([torch.ones(5, 40, dtype=torch.float64)], mask.T, None)
    check_node(cn.dropout(0.4, y), [random(40, 5)], lambda v: v * mask, differences=False)


def test_outside_training_it_is_the_operand() -> None:
    value, output = torch.randn(5, 40), torch.empty(5, 40)
    assert cn.dropout(0.4, y).operation.kernel(state(training=False)).run_forward([value], output, None) is None
    assert torch.equal(value, output)


def test_without_a_mask_the_gradient_is_that_of_the_value() -> None:
    check_node(cn.dropout(0.0, y), [random(40, 5)], lambda v: v * 1)


def test_gradients_outside_training_pass_all_elements() -> None:
    x = cn.input("x", 3)
    net = cn.Network(cn.sum_elements(cn.dropout(0.5, cn.parameter("W", (4, 3)) @ x)))
    X = torch.ones(3, 2)
    assert (net.gradients({"x": X}, training=False)["W"] == 2).all()
    assert sorted(set(net.gradients({"x": X})["W"].ravel().tolist())) != [2.0]


@pytest.mark.parametrize("rate", [-0.1, 1.0, 2])
def test_rates_that_cannot_be(rate) -> None:
    with pytest.raises(NetworkError, match="rate"):
        cn.dropout(rate, y)
