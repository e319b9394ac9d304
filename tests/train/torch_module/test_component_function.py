"""A component's module called by itself."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

import nnet3
from nnet3.errors import ArgumentError, GradientError, NetworkError
from tests.train.torch_module.networks import COMPOSITE, TDNN, network


def _module(config: str = TDNN, seed: int = 0) -> nnet3.TorchModule:
    return nnet3.TorchModule(network(config, seed))


# ---- the network of such a module ----


# ---- modules called by their user ----


def test_a_component_computes():
    module = _module()
    affine, x = module.tdnn1.affine, torch.randn(4, 7, 9).requires_grad_()
    y = affine(x)
    torch.testing.assert_close(y, nn.functional.linear(x, affine.linear_params, affine.bias_params))
    y.sum().backward()
    torch.testing.assert_close(affine.bias_params.grad, torch.full((6,), 28.0))
    assert x.grad is not None
    alone = copy.deepcopy(affine)
    with torch.no_grad():
        affine.linear_params.zero_()
    torch.testing.assert_close(alone(x), y)
    norm = module.tdnn1.norm
    z = norm(y.detach())
    torch.testing.assert_close(
        z, nn.functional.batch_norm(y.flatten(0, 1), None, None, training=True, eps=1e-3).view(4, 7, 6)
    )
    assert float(norm.count) == pytest.approx(0.8 * 28)
    torch.testing.assert_close(_module(COMPOSITE).both(torch.zeros(2, 3, 3)), torch.zeros(2, 3, 4))
    assert torch.func.grad(lambda x: affine(x).sum())(torch.zeros(9)).shape == (9,)


def test_a_component_in_double_passes_gradcheck():
    module = _module().double()
    x = torch.randn(5, 9, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(lambda x, *_: module.tdnn1.affine(x), (x, *module.tdnn1.affine.parameters()))
    assert torch.autograd.gradcheck(module.tdnn1.norm, torch.randn(5, 6, dtype=torch.float64).requires_grad_())


def test_what_a_component_cannot_compute():
    module = _module()
    with pytest.raises(NetworkError, match=r"'tdnn2' \(TdnnComponent\) needs to know at which times its rows are"):
        module.tdnn2(torch.zeros(2, 6))
    with pytest.raises(ArgumentError, match=r"component 'tdnn1.affine' takes \(\.\.\., 9\), got \(2, 8\)"):
        module.tdnn1.affine(torch.zeros(2, 8))
    with pytest.raises(ArgumentError, match="got list"):
        module.tdnn1.affine([1.0])
    x = torch.zeros(2, 9, requires_grad=True)
    (gradient,) = torch.autograd.grad(module.tdnn1.affine(x).sum(), x, create_graph=True)
    with pytest.raises(GradientError, match="the gradients of a component cannot be differentiated again"):
        gradient.sum().backward()
    module.tdnn1.norm.count.fill_(1.0)
    module.eval()
    y = module.tdnn1.norm(torch.zeros(2, 6, requires_grad=True))
    module.tdnn1.norm.stats_sum.add_(1.0)
    with pytest.raises(GradientError, match="changed between forward and backward"):
        y.sum().backward()


# ---- parameters from outside ----


# ---- what is changed between forward and backward ----
