"""Gradients of several backward runs, and statistics of forward runs."""

from __future__ import annotations

import pytest
import torch

import nnet3
from tests.train.torch_module.networks import DROPOUT, IVECTOR, LSTM, TDNN, features, network


def test_gradients_add_up_over_backwards():
    module = nnet3.TorchModule(network(TDNN)).eval()
    module.get_submodule("tdnn1.norm").count.fill_(1.0)
    once, twice = features(2, 5, seed=1), features(3, 4, seed=2)
    gradients = []
    for parts in ([once], [twice], [once, twice]):
        module.zero_grad()
        for part in parts:
            module(part).square().sum().backward()
        gradients.append([parameter.grad.clone() for parameter in module.parameters()])
    for first, second, both in zip(*gradients, strict=True):
        torch.testing.assert_close(first + second, both)


def test_backwards_in_another_order():
    module = nnet3.TorchModule(network(LSTM))
    batches = [features(2, 6, seed=seed) for seed in range(4)]
    expected = [torch.autograd.grad(module(x).square().sum(), module.parameters()) for x in batches]
    losses = [module(x).square().sum() for x in batches]
    for number in (2, 0, 3, 1):
        found = torch.autograd.grad(losses[number], module.parameters())
        torch.testing.assert_close(found, expected[number], atol=0, rtol=0)


def test_a_second_backward_through_the_same_forward():
    module = nnet3.TorchModule(network(DROPOUT))
    output = module(features(2, 3, 4))
    first = torch.autograd.grad(output.sum(), module.parameters(), retain_graph=True)
    torch.manual_seed(5)
    drawn = torch.rand(3)
    torch.manual_seed(5)
    again = torch.autograd.grad(output.sum(), module.parameters())
    torch.testing.assert_close(first, again, atol=0, rtol=0)  # the same elements dropped
    assert torch.equal(drawn, torch.rand(3))  # and nothing drawn for it from the generator
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        output.sum().backward()


def test_a_second_backward_takes_no_statistics():
    nnet = network(TDNN)
    output = nnet3.TorchModule(nnet, batchnorm_stats_scale=1.0)(features(2, 5))
    count = nnet.components["tdnn1.norm"].count
    output.sum().backward(retain_graph=True)
    output.sum().backward()
    assert nnet.components["tdnn1.norm"].count == count > 0


def test_parameters_that_the_outputs_do_not_depend_on_have_no_gradients():
    module = nnet3.TorchModule(network(IVECTOR), outputs=["output"])
    module(features(2, 4), torch.ones(2, 2)).sum().backward()
    assert module.affine.linear_params.grad is not None
    assert next(module.xent.parameters()).grad is None
