"""Tensors that modules and components share: one parameter for each tensor."""

from __future__ import annotations

import torch

import nnet3
from tests.train.torch_module.networks import features


def _chain(*names: str) -> nnet3.TorchModule:
    """A network of affine components of these names, one after the other."""
    lines, previous = ["input-node name=input dim=3"], "input"
    for number, name in enumerate(names):
        lines.append(f"component name={name} type=AffineComponent input-dim=3 output-dim=3")
        lines.append(f"component-node name=n{number} component={name} input={previous}")
        previous = f"n{number}"
    return nnet3.TorchModule(nnet3.Nnet.from_config("\n".join([*lines, f"output-node name=output input={previous}"])))


def test_two_components_with_one_tensor_have_one_parameter():
    nnet = _chain("a", "b").nnet
    nnet.components["b"].linear_params = nnet.components["a"].linear_params
    module = nnet3.TorchModule(nnet)
    assert module.a.linear_params is module.b.linear_params
    assert len(list(module.parameters())) == 3
    x, weight = features(1, 4), module.a.linear_params.detach().clone().requires_grad_()
    biases = [module.a.bias_params.detach(), module.b.bias_params.detach()]
    module(x).square().sum().backward()
    by_hand = torch.nn.functional.linear(torch.nn.functional.linear(x, weight, biases[0]), weight, biases[1])
    by_hand.square().sum().backward()
    torch.testing.assert_close(module.a.linear_params.grad, weight.grad, atol=1e-4, rtol=1e-4)
