"""Modules that take the place of components, and what cannot."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import nnet3
from nnet3.errors import NetworkError
from tests.train.torch_module.comparing import assert_alike, gradients
from tests.train.torch_module.networks import COMPOSITE, TDNN, features, network


def _module(config: str = TDNN, seed: int = 0) -> nnet3.TorchModule:
    return nnet3.TorchModule(network(config, seed))


def _as_linear(component: nnet3.components.Component) -> nn.Linear:
    weight, bias = component.parameters().values()
    layer = nn.Linear(weight.shape[1], weight.shape[0])
    with torch.no_grad():
        layer.weight.copy_(weight)
        layer.bias.copy_(bias)
    return layer


def test_parts_of_composites_are_replaced_too():
    module, plain = _module(COMPOSITE), _module(COMPOSITE)
    module.both.component1 = _as_linear(module.nnet.components["both"].parts[0])
    assert_alike(gradients(module, features(2, 6)), gradients(plain, features(2, 6)))
    assert module.both.component3.count == plain.both.component3.count == 12


def test_the_same_module_in_two_places():
    nnet = nnet3.Nnet.from_config("""
        input-node name=input dim=3
        component name=a type=AffineComponent input-dim=3 output-dim=3
        component name=b type=AffineComponent input-dim=3 output-dim=3
        component-node name=a component=a input=input
        component-node name=b component=b input=a
        output-node name=output input=b
    """)
    module = nnet3.TorchModule(nnet)
    module.b = module.a
    x, linear = features(1, 4), _as_linear(nnet.components["a"])
    linear(linear(x)).square().sum().backward()
    module(x).square().sum().backward()
    torch.testing.assert_close(module.a.linear_params.grad, linear.weight.grad, atol=1e-4, rtol=1e-4)
    with pytest.raises(NetworkError, match="put the component's own module back"):
        module.nnet  # noqa: B018


def test_what_cannot_take_a_place():
    module, x = _module(), features(2, 6)
    module.tdnn2 = nn.Linear(6, 5)
    with pytest.raises(NetworkError, match=r"Linear cannot take the place of component 'tdnn2' \(TdnnComponent\)"):
        module(x)
    module = _module()
    module.tdnn1.affine = nn.Linear(9, 7)
    with pytest.raises(NetworkError, match=r"'tdnn1.affine' \(Linear\) gave \(20, 7\) for \(20, 9\), .* \(20, 6\)"):
        module(x)
    module = _module()
    del module.tdnn1.relu
    with pytest.raises(NetworkError, match=r"module.tdnn1.relu is not there any more"):
        module(x)
    module = _module()
    module.tdnn1 = nn.Linear(9, 6)
    with pytest.raises(NetworkError, match=r"tdnn1.affine is not there any more, since module.tdnn1.affine was taken"):
        module(x)
    module = _module(COMPOSITE)
    del module.both.component2
    with pytest.raises(NetworkError, match="part 'component2' of component 'both' was taken away"):
        module(x)


def test_a_whole_folder_may_be_replaced_by_one_with_the_same_names():
    module, plain = _module(), _module()
    module.tdnn1 = nn.ModuleDict({name: module.tdnn1.get_submodule(name) for name in ("affine", "norm", "relu")})
    assert_alike(gradients(module, features(2, 6)), gradients(plain, features(2, 6)))


# ---- the network of such a module ----


# ---- modules called by their user ----


# ---- parameters from outside ----


# ---- what is changed between forward and backward ----
