"""Statistics over a data set in minibatches, and normalization with them."""

from __future__ import annotations

import pytest
import torch

from nnet3 import cn
from nnet3.errors import GradientError, NetworkError, ShapeError
from tests.cn.check_node import random, run_forward

x = cn.input("x", 3)
DATA = random(3, 50) * torch.tensor([[1.0], [5.0], [0.0]]) + torch.tensor([[2.0], [-3.0], [4.0]])


def gathered(node):
    for minibatch in (DATA[:, :7], DATA[:, 7:40], DATA[:, 40:40], DATA[:, 40:]):
        node.accept(minibatch.T)
    assert not node.is_computed
    node.finish()
    return node


def test_the_mean_is_that_of_all_samples() -> None:
    node = gathered(cn.mean(x))
    assert node.is_computed
    assert node.value == pytest.approx(DATA.mean(1, keepdim=True).numpy(), rel=1e-5)


def test_inverse_standard_deviation() -> None:
    value = gathered(cn.inv_std_dev(x, floor=0.01)).value
    expected = 1 / DATA[:2].std(1, correction=0, keepdim=True).numpy()
    assert value[:2] == pytest.approx(expected, rel=1e-5)
    assert value[2] == pytest.approx(100)  # a constant row


def test_a_data_set_without_samples() -> None:
    with pytest.raises(NetworkError, match="no samples"):
        cn.mean(x).finish()


def test_normalization_is_the_formula() -> None:
    node = cn.per_dim_mean_var_norm(x, cn.mean(x), cn.inv_std_dev(x))
    m, s = random(3, 1), random(3, 1, seed=1)
    torch.testing.assert_close(run_forward(node, [DATA, m, s]), (DATA - m) * s)


def test_there_is_no_gradient() -> None:
    for node in (cn.mean(x), cn.inv_std_dev(x), cn.per_dim_mean_var_norm(x, cn.mean(x), cn.mean(x))):
        with pytest.raises(GradientError, match=node.type):
            node.operation.check_gradient(0)


def test_statistics_need_samples() -> None:
    with pytest.raises(ShapeError, match="needs an operand with samples"):
        cn.mean(cn.parameter("W", (3, 3)))


def test_a_gradient_with_respect_to_a_statistic() -> None:
    m = gathered(cn.mean(x, name="m"))
    net = cn.Network(cn.sum_elements(cn.exp(x - m), name="J"))
    found = net.gradients({"x": DATA.numpy()}, wrt=["m"])
    assert found["m"] == pytest.approx(-torch.exp(DATA - torch.tensor(m.value)).sum(1, keepdim=True).numpy(), rel=1e-4)
