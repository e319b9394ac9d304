"""Derivatives: against finite differences and against the same network written in PyTorch."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch
from torch import Tensor

import nnet3
from nnet3.errors import GradientError
from nnet3.training.train.torch_module.layout import BatchShape
from tests.effort import EFFORT
from tests.shared_data import golden_cases
from tests.train.torch_module.networks import ALL, IVECTOR, TDNN, TdnnByHand, features, network


def _inputs(module: nnet3.TorchModule, batch: int, frames: int) -> list[Tensor]:
    x = features(batch, frames, module.nnet.node_dim("input"), seed=1).double().requires_grad_()
    if "ivector" not in module.nnet.input_names:
        return [x]
    return [x, features(batch, 2, seed=2)[:, :, 0].double().requires_grad_()]


@pytest.mark.parametrize("lengths", [None, [7, 4]], ids=["all frames", "lengths"])
@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("config", ALL.values(), ids=ALL)
@pytest.mark.filterwarnings("ignore:a batch-norm component in test mode has no statistics")
def test_gradients_are_those_of_finite_differences(config, training, lengths):
    module = nnet3.TorchModule(network(config), frame_subsampling_factor=2).double().train(training)
    inputs = _inputs(module, 2, 7)

    def function(*tensors: Tensor) -> tuple[Tensor, ...]:
        outputs = module(*tensors[: len(inputs)], lengths=lengths)
        return tuple(outputs.values()) if isinstance(outputs, dict) else (outputs,)

    assert torch.autograd.gradcheck(function, (*inputs, *module.parameters()), fast_mode=EFFORT == 1)


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
def test_the_same_as_by_hand(training):
    nnet = network(TDNN)
    by_hand = TdnnByHand(nnet).train(training)
    module = nnet3.TorchModule(nnet).train(training)
    component = nnet.components["tdnn1.norm"]
    component.count, by_hand.norm.running_var = 10.0, torch.full((6,), 4.0)
    component.stats_sumsq.fill_(40.0)
    ours, theirs = (features(4, 9).requires_grad_() for _ in range(2))
    weights = torch.randn(4, 9, 5, generator=torch.Generator().manual_seed(3))
    output, expected = module(ours), by_hand(theirs)
    torch.testing.assert_close(output, expected, atol=1e-5, rtol=1e-4)
    (output * weights).sum().backward()
    (expected * weights).sum().backward()
    torch.testing.assert_close(ours.grad, theirs.grad, atol=1e-4, rtol=1e-3)
    for name, layer in (("tdnn1.affine", by_hand.first), ("tdnn2", by_hand.second)):
        own = module.get_submodule(name)
        shape = layer.weight.shape[0], 3, layer.weight.shape[1]
        torch.testing.assert_close(own.linear_params.grad.view(shape).mT, layer.weight.grad, atol=1e-4, rtol=1e-3)
        torch.testing.assert_close(own.bias_params.grad, layer.bias.grad, atol=1e-4, rtol=1e-3)


def test_twice_differentiated_is_an_error():
    module = nnet3.TorchModule(network(IVECTOR), outputs=["output"])
    x = features(1, 4).requires_grad_()
    (gradient,) = torch.autograd.grad(module(x, torch.ones(1, 2)).sum(), x, create_graph=True)
    with pytest.raises(GradientError, match="cannot be differentiated again"):
        gradient.square().sum().backward()


def test_a_parameter_changed_before_backward_is_an_error():
    module = nnet3.TorchModule(network(TDNN))
    loss = module(features(1, 4)).sum()
    with torch.no_grad():
        module.tdnn2.bias_params.add_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


@pytest.mark.parametrize("made", [lambda m: m, copy.deepcopy, lambda m: m.double()], ids=["new", "copied", "converted"])
def test_a_network_changed_before_backward_is_an_error(made):
    module = made(nnet3.TorchModule(network(TDNN)))
    loss = module(features(1, 4).to(next(module.parameters()).dtype)).sum()
    module.nnet.scale_(2.0)
    with pytest.raises(GradientError, match="changed between forward and backward"):
        loss.backward()


def test_an_output_may_be_changed_in_place_and_an_output_left_out():
    module = nnet3.TorchModule(network(IVECTOR))
    x = features(2, 4)
    outputs = module(x, torch.ones(2, 2))
    expected = torch.autograd.grad(2 * outputs["output"].sum(), module.affine.linear_params)
    changed = module(x, torch.ones(2, 2))["output"].mul_(2.0)
    found = torch.autograd.grad(changed.sum(), module.affine.linear_params)
    torch.testing.assert_close(found, expected)


def test_of_inputs_alone():
    module = nnet3.TorchModule(network(TDNN)).requires_grad_(False)
    x = features(1, 4).requires_grad_()
    module(x).square().sum().backward()
    assert float(x.grad.abs().sum()) > 0
    assert all(parameter.grad is None for parameter in module.parameters())
    assert not module(x.detach()).requires_grad
    with torch.no_grad():
        assert not module(x).requires_grad
    (program,) = [each for each in module._programs._programs.values() if not each.needs.backward]
    assert "Backprop" not in str(program.idle[0].computer.computation)


def test_of_ivectors_alone():
    module = nnet3.TorchModule(network(IVECTOR), outputs=["output"]).requires_grad_(False)
    ivectors = torch.ones(2, 2).requires_grad_()
    module(features(2, 4), ivectors).sum().backward()
    assert float(ivectors.grad.abs().sum()) > 0
    assert all(parameter.grad is None for parameter in module.parameters())


def test_what_is_not_finite_goes_through():
    """As it does in any module: it is for the trainer to look."""
    module = nnet3.TorchModule(network(TDNN))
    assert module(torch.full((1, 4, 3), torch.nan)).isnan().all()


@pytest.mark.parametrize(
    "case", (golden_cases("random") + golden_cases("recipe"))[:: 6 if EFFORT == 1 else 2], ids=lambda path: path.name
)
def test_golden_networks_have_the_computers_gradients(case):
    """To the bit those of an NnetComputer that collects plain gradients, in training mode, without self-repair."""
    nnet = nnet3.load(case / "model.raw")
    nnet.set_test_mode(False)
    for component in nnet.components.values():
        for each in (component, *getattr(component, "parts", ())):
            each.set_dropout_proportion(0.0)
            if hasattr(each, "self_repair_scale"):
                each.self_repair_scale = 0.0
            if hasattr(each, "self_repair_config"):
                each.self_repair_config = torch.zeros(10)
    module = nnet3.TorchModule(nnet)
    inputs = {"input": features(2, 8, nnet.node_dim("input")).requires_grad_()}
    if "ivector" in nnet.input_names:
        inputs["ivector"] = features(2, 1, nnet.node_dim("ivector"), seed=1)[:, 0].requires_grad_()
    outputs = module(*inputs.values())
    outputs = outputs if isinstance(outputs, dict) else {"output": outputs}
    derivs = {name: torch.randn_like(output) for name, output in outputs.items()}
    torch.autograd.backward(tuple(outputs.values()), tuple(derivs.values()))

    (program,) = module._programs._programs.values()
    gradient, shape = nnet.gradient_copy(), BatchShape(2, 8)
    request = program.request(program.idle[0].view, shape)
    computation = nnet3.compile(nnet, replace(request, store_component_stats=False))
    computer = nnet3.NnetComputer(computation, nnet, gradient)
    computer.accept_input("input", program.layout_of(shape).gather(inputs["input"].detach()))
    if "ivector" in inputs:
        computer.accept_input("ivector", inputs["ivector"].detach())
    computer.run()
    for name, output in outputs.items():
        assert torch.equal(computer.get_output(name).view_as(output), output)
        computer.accept_input(name, derivs[name].flatten(0, 1))
    computer.run()
    expected = [t for c in gradient.components.values() for t in c.parameters().values() if t.numel()]
    assert all(map(torch.equal, [parameter.grad for parameter in module.parameters()], expected))
    of_input = program.layout_of(shape).gather_back(computer.get_output("input"), inputs["input"])
    assert torch.equal(inputs["input"].grad, of_input)
    if "ivector" in inputs:
        assert torch.equal(inputs["ivector"].grad, computer.get_output("ivector"))
