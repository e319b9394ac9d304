"""Modules of components: one for each component."""

from __future__ import annotations

import torch

import nnet3
from tests.train.torch_module.networks import features


def test_a_component_used_twice_has_one_module():
    module = nnet3.TorchModule(
        nnet3.Nnet.from_config(
            """
            input-node name=input dim=3
            component name=both type=AffineComponent input-dim=3 output-dim=3
            component-node name=first component=both input=input
            component-node name=second component=both input=first
            output-node name=output input=second
            """
        )
    )
    x, (weight, bias) = features(1, 4), [p.detach().clone().requires_grad_() for p in module.parameters()]
    module(x).square().sum().backward()
    torch.nn.functional.linear(torch.nn.functional.linear(x, weight, bias), weight, bias).square().sum().backward()
    for parameter, expected in zip(module.parameters(), (weight, bias), strict=True):
        torch.testing.assert_close(parameter.grad, expected.grad, atol=1e-4, rtol=1e-4)
