"""Modules in the place of components: replaced, wrapped, hooked, parametrized, or called by their user."""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize, prune

import nnet3
from nnet3.errors import GradientError, NetworkError
from nnet3.training.train.torch_module.component_module import ComponentModule, component_modules
from tests.effort import EFFORT
from tests.train.torch_module.comparing import assert_alike, gradients
from tests.train.torch_module.networks import COMPOSITE, DROPOUT, IVECTOR, LSTM, TDNN, features, network


def _module(config: str = TDNN, seed: int = 0) -> nnet3.TorchModule:
    return nnet3.TorchModule(network(config, seed))


class LowRank(nn.Module):
    """What LoRA puts in the place of a layer."""

    def __init__(self, base: nn.Module, inputs: int, outputs: int, start: float = 0.0) -> None:
        super().__init__()
        self.base = base
        self.down, self.up = nn.Linear(inputs, 2, bias=False), nn.Linear(2, outputs, bias=False)
        nn.init.constant_(self.up.weight, start)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.base(x) + self.up(self.down(x))
        return y


class Doubled(nn.Module):
    def forward(self, weight: Tensor) -> Tensor:
        return 2 * weight

    def right_inverse(self, weight: Tensor) -> Tensor:
        return weight / 2


def _as_linear(component: nnet3.components.Component) -> nn.Linear:
    weight, bias = component.parameters().values()
    layer = nn.Linear(weight.shape[1], weight.shape[0])
    with torch.no_grad():
        layer.weight.copy_(weight)
        layer.bias.copy_(bias)
    return layer


def _by_linear(module: nnet3.TorchModule) -> None:
    module.tdnn1.affine = _as_linear(module.nnet.components["tdnn1.affine"])


def _wrapped(module: nnet3.TorchModule) -> None:
    module.tdnn1.affine = LowRank(module.tdnn1.affine, 9, 6)


def _hooked(module: nnet3.TorchModule) -> None:
    for each in component_modules(module):
        each.register_forward_hook(lambda *_: None)


def _parametrized(module: nnet3.TorchModule) -> None:
    parametrize.register_parametrization(module.tdnn1.affine, "linear_params", Doubled())


def _weight_norm(module: nnet3.TorchModule) -> None:
    nn.utils.parametrizations.weight_norm(module.get_submodule("tdnn1.affine"), "linear_params")


def _old_weight_norm(module: nnet3.TorchModule) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        nn.utils.weight_norm(module.get_submodule("tdnn1.affine"), "linear_params")


def _method_replaced(module: nnet3.TorchModule) -> None:
    forward = module.tdnn1.relu.forward
    module.tdnn1.relu.forward = lambda x: forward(x)


@pytest.mark.parametrize("lengths", [None, [6, 3]], ids=["all frames", "lengths"])
@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize(
    "change", [_by_linear, _wrapped, _hooked, _parametrized, _weight_norm, _old_weight_norm, _method_replaced]
)
def test_what_means_the_same_gives_the_same(change: Callable[..., None], training: bool, lengths: list[int] | None):
    modules = _module(), _module()
    change(modules[1])
    for module in modules:
        module(features(2, 6, seed=9))  # batch-norm has statistics
        module.train(training)
    found = [gradients(module, features(2, 6), lengths=lengths) for module in modules]
    assert_alike(found[1], found[0])
    assert_alike(*(dict(module.named_buffers()) for module in modules))  # of float32 rows


@pytest.mark.parametrize("config", [LSTM, COMPOSITE, DROPOUT], ids=["lstm", "composite", "dropout"])
def test_hooks_change_nothing(config: str):
    plain, hooked = _module(config), _module(config)
    _hooked(hooked)
    x = features(2, 6, plain.nnet.node_dim("input"))
    assert_alike(gradients(hooked, x), gradients(plain, x), 1e-6)
    torch.testing.assert_close(dict(hooked.named_buffers()), dict(plain.named_buffers()))


def test_hooks_see_rows_and_may_change_them():
    module, seen = _module(), []
    module.tdnn1.relu.register_forward_hook(lambda _, inputs, output: seen.append((*inputs, output)))
    x = features(2, 6)
    module(x)
    seen.clear()
    expected = module.eval()(x)
    ((before, after),) = seen
    assert before.shape == (2 * 10, 6)  # rows: the frames that the outputs need
    assert torch.equal(after, before.relu())
    handle = module.tdnn1.relu.register_forward_hook(lambda _, inputs, output: torch.zeros_like(output))
    assert not torch.equal(module(x), expected)
    handle.remove()
    assert torch.equal(module(x), expected)
    module.tdnn1.relu.register_full_backward_hook(lambda _, of_input, of_output: seen.append((*of_input, *of_output)))
    module(x.requires_grad_()).sum().backward()
    assert seen[-1][0].shape == (20, 6)
    module.tdnn1.affine.register_forward_pre_hook(lambda _, inputs: (torch.zeros_like(inputs[0]),))
    assert not torch.equal(module(x), expected)


def test_hooks_in_a_loop_fire_at_each_step():
    module, steps = _module(LSTM), []
    module.gates.register_forward_hook(lambda *_: steps.append(1))
    module(features(2, 6))
    assert len(steps) == 6


def test_a_hook_on_a_folder_is_warned_of():
    folder = _module().tdnn1
    for register in (
        folder.register_forward_hook,
        folder.register_forward_pre_hook,
        folder.register_full_backward_hook,
        folder.register_full_backward_pre_hook,
    ):
        with pytest.warns(RuntimeWarning, match=r"never fires.*\(affine, relu, norm\)"):
            register(lambda *_: None)


def test_a_low_rank_change_of_a_frozen_network_learns():
    module = _module().requires_grad_(False)
    before = {name: p.clone() for name, p in module.named_parameters()}
    module.tdnn1.affine = LowRank(module.tdnn1.affine, 9, 6, start=0.1)
    module.tdnn1.affine.base.requires_grad_(False)
    wanted = [p for p in module.parameters() if p.requires_grad]
    assert len(wanted) == 2
    optimizer = torch.optim.Adam(wanted, lr=0.05)
    target, losses = features(2, 6, 5, seed=3), []
    for _ in range(30):
        loss = (module(features(2, 6)) - target).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.9 * losses[0]
    weights = module.tdnn1.affine.base.linear_params
    assert torch.equal(weights, before["tdnn1.affine.linear_params"])
    program = next(iter(module._programs._programs.values()))
    assert program.idle[0].collector.components["tdnn2"] is None


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
def test_gradients_of_modules_of_all_kinds_are_those_of_finite_differences(training: bool):
    module = _module()
    module.tdnn1.affine = LowRank(module.tdnn1.affine, 9, 6, start=0.3)
    module.tdnn1.relu = nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 6))
    parametrize.register_parametrization(module.tdnn2, "bias_params", Doubled())
    module.double()
    module(features(2, 5).double())
    module.train(training)
    x = features(2, 5, seed=1).double().requires_grad_()
    given = (x, *module.parameters())
    assert torch.autograd.gradcheck(lambda x, *_: module(x, lengths=[5, 3]), given, fast_mode=EFFORT == 1)


def test_a_second_backward_and_several_forwards():
    module = _module(DROPOUT)
    module.affine = LowRank(module.affine, 4, 40, start=0.1)
    module.dropout = nn.Dropout(0.5)
    outputs = [module(features(2, 3, 4, seed=seed)) for seed in range(3)]
    first = [torch.autograd.grad(y.square().sum(), module.parameters(), retain_graph=True) for y in outputs]
    for number in (1, 2, 0):
        again = torch.autograd.grad(outputs[number].square().sum(), module.parameters())
        torch.testing.assert_close(again, first[number])


# ---- the network of such a module ----


def test_the_network_gets_what_it_can_hold():
    module, x = _module(), features(2, 6)
    with torch.no_grad():
        module(x)
    module.tdnn1.affine = nn.Linear(9, 6, bias=False)
    parametrize.register_parametrization(module.tdnn2, "linear_params", Doubled())
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    module(x).square().mean().backward()
    optimizer.step()
    module.eval()
    torch.testing.assert_close(module.nnet.compute(x[0]), module(x)[0], atol=1e-5, rtol=1e-4)
    original = module.tdnn2.parametrizations.linear_params.original
    torch.testing.assert_close(module.nnet.components["tdnn2"].linear_params, 2 * original.detach())
    torch.testing.assert_close(module(x), copy.deepcopy(module)(x))


def test_a_network_is_not_given_out_without_what_it_cannot_hold():
    module = _module()
    module.tdnn1.relu = nn.GELU()
    module(features(2, 6))
    with pytest.raises(NetworkError, match=r"has component 'tdnn1.relu' \(RectifiedLinearComponent\), .* with GELU"):
        module.nnet  # noqa: B018
    module = _module()
    _old_weight_norm(module)
    with pytest.raises(NetworkError, match="made anew by a hook whenever the module is called"):
        module.nnet  # noqa: B018
    nn.utils.remove_weight_norm(module.tdnn1.affine, "linear_params")
    with torch.no_grad():
        torch.testing.assert_close(
            module.nnet.components["tdnn1.affine"].linear_params, module.tdnn1.affine.linear_params
        )


def test_a_parametrization_and_back():
    module, plain, x = _module(), _module(), features(2, 6)
    for change in (_parametrized, _weight_norm):
        change(module)
        names = [name for name, _ in module.named_parameters()]
        assert "tdnn1.affine.linear_params" not in names
        twin = copy.deepcopy(module)
        twin.load_state_dict({name: value.clone() for name, value in module.state_dict().items()})
        assert_alike(gradients(twin, x), gradients(module, x))
        parametrize.remove_parametrizations(module.tdnn1.affine, "linear_params")
        assert_alike(gradients(module, x), gradients(plain, x))
        module.nnet.scale_(0.5)
        plain.nnet.scale_(0.5)
        assert_alike(gradients(module, x), gradients(plain, x))


def test_pruned_modules_compute_with_their_masks():
    module = _module()
    prune.l1_unstructured(module.tdnn1.affine, "linear_params", amount=0.5)
    assert int((module.tdnn1.affine.linear_params == 0).sum()) == 27
    by_hand = _module()
    with torch.no_grad():
        by_hand.tdnn1.affine.linear_params.copy_(module.tdnn1.affine.linear_params)
    assert_alike(gradients(module, features(2, 6)), gradients(by_hand, features(2, 6)))
    twin = _module()
    prune.l1_unstructured(twin.tdnn1.affine, "linear_params", amount=0.5)
    twin.load_state_dict(module.state_dict())
    prune.remove(module.tdnn1.affine, "linear_params")
    torch.testing.assert_close(
        module.eval().nnet.components["tdnn1.affine"].linear_params, twin.tdnn1.affine.linear_params
    )


@pytest.mark.parametrize("how", ["deepcopy", "pickle"])
def test_copies_keep_all_of_it(how: str):
    module = _module()
    module.tdnn1.affine = LowRank(module.tdnn1.affine, 9, 6, start=0.2)
    module.tdnn1.relu.register_parameter("slope", nn.Parameter(torch.ones(1)))
    module.tdnn1.relu.register_buffer("more", torch.ones(2))
    module.tdnn2.linear_params = nn.Parameter(torch.ones(5, 18), requires_grad=False)
    twin = copy.deepcopy(module) if how == "deepcopy" else pickle.loads(pickle.dumps(module))
    torch.testing.assert_close(twin.state_dict(), module.state_dict(), rtol=0, atol=0)
    assert [p.requires_grad for p in twin.parameters()] == [p.requires_grad for p in module.parameters()]
    assert_alike(gradients(twin, features(2, 6)), gradients(module, features(2, 6)), 1e-7)


@pytest.mark.parametrize("how", ["deepcopy", "pickle"])
def test_parameters_tied_by_hand_stay_tied_in_copies_until_they_are_untied(how: str):
    nnet = nnet3.Nnet.from_config("""
        input-node name=input dim=3
        component name=a type=AffineComponent input-dim=3 output-dim=3
        component name=b type=AffineComponent input-dim=3 output-dim=3
        component-node name=a component=a input=input
        component-node name=b component=b input=a
        output-node name=output input=b
    """)
    module = nnet3.TorchModule(nnet)
    module.b.linear_params = module.a.linear_params
    module(features(1, 4)).sum().backward()
    twin = copy.deepcopy(module) if how == "deepcopy" else pickle.loads(pickle.dumps(module))
    assert twin.a.linear_params is twin.b.linear_params
    assert_alike(gradients(twin, features(1, 4)), gradients(module, features(1, 4)))
    module.nnet.scale_(0.5)
    torch.testing.assert_close(nnet.components["b"].linear_params, 0.5 * twin.a.linear_params.detach())
    before = module.a.linear_params.clone()
    module.b.linear_params = nn.Parameter(torch.ones(3, 3))
    module(features(1, 4))
    assert torch.equal(module.a.linear_params, before)
    assert torch.equal(module.nnet.components["b"].linear_params, torch.ones(3, 3))
    assert torch.equal(module.nnet.components["a"].linear_params, before)


# ---- modules called by their user ----


# ---- parameters from outside ----


@pytest.mark.parametrize("config", [TDNN, LSTM, COMPOSITE], ids=["tdnn", "lstm", "composite"])
def test_parameters_may_be_given_for_one_call(config: str):
    module, giver, x = _module(config), _module(config, seed=7), features(2, 6)
    expected, before = gradients(giver, x), gradients(module, x)
    given = {name: p.detach().clone().requires_grad_() for name, p in giver.named_parameters()}
    torch.func.functional_call(module, given, (x,)).square().sum().backward()
    assert_alike({name: p.grad for name, p in given.items() if p.grad is not None}, expected)
    by_other = torch.func.functional_call(module, dict(giver.named_parameters()), (x,))
    torch.testing.assert_close(by_other.detach(), expected["output"])
    assert_alike(gradients(module, x), before)
    for mine, theirs in zip(module.parameters(), giver.parameters(), strict=True):
        assert not torch.equal(mine, theirs)

    def loss(parameters: dict[str, Tensor], x: Tensor) -> Tensor:
        output: Tensor = torch.func.functional_call(module, parameters, (x,))
        return output.square().sum()

    values = {name: p.detach() for name, p in given.items()}
    by_parameters, by_x = torch.func.grad(loss, argnums=(0, 1))(values, x)
    assert_alike({**by_parameters, "x": by_x}, expected)
    output, backward = torch.func.vjp(module, x)
    torch.testing.assert_close(backward(2 * output)[0], before["x"], atol=1e-4, rtol=1e-4)


def test_some_parameters_given_and_a_step_through_them():
    """As in meta-learning: the gradient goes through what the parameters were made of."""
    module, x = _module(), features(2, 6)
    rate = torch.tensor(0.1, requires_grad=True)
    weight = module.tdnn2.linear_params
    given = {"tdnn2.linear_params": weight.detach() * rate}
    torch.func.functional_call(module, given, (x,)).square().sum().backward()
    (of_weight,) = torch.autograd.grad(
        torch.func.functional_call(module, {"tdnn2.linear_params": (w := weight.detach() * 0.1).requires_grad_()}, (x,))
        .square()
        .sum(),
        w,
    )
    torch.testing.assert_close(rate.grad, (of_weight * weight.detach()).sum(), atol=1e-3, rtol=1e-4)


def test_buffers_may_be_given_for_one_call():
    giver, module, x = _module(), _module(seed=5), features(2, 6)
    giver(x)
    state = {name: value.clone() for name, value in giver.state_dict().items()}
    for training in (False, True):
        output = torch.func.functional_call(module.train(training), state, (x,))
        torch.testing.assert_close(output, giver.train(training)(x))
    torch.testing.assert_close(state["tdnn1.norm.count"], giver.tdnn1.norm.count)  # changed where they are
    torch.testing.assert_close(state["tdnn1.norm.stats_sum"], giver.tdnn1.norm.stats_sum)
    assert module.nnet.components["tdnn1.norm"].count == 0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (torch.zeros(7), r"'bias_params' of component 'tdnn2' was replaced by one of shape \(7,\), .* has \(5,\)"),
        (torch.zeros(5).double(), r"replaced by one in torch.float64 on cpu, but .* in torch.float32 on cpu"),
    ],
)
def test_parameters_that_do_not_fit(given: Tensor, message: str):
    module = _module()
    with pytest.raises(NetworkError, match=message):
        torch.func.functional_call(module, {"tdnn2.bias_params": given}, (features(2, 6),))
    with pytest.raises(NetworkError, match="shape"):
        module.tdnn2.bias_params = nn.Parameter(torch.zeros(7))
    assert module.tdnn2.bias_params.shape == (5,)


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")
def test_transformations_that_there_are_none_of():
    module, x = _module(), features(2, 6)
    with pytest.raises(GradientError, match=r"torch\.vmap cannot run.*whole batches themselves"):
        torch.vmap(module)(torch.stack([x, x]))
    with pytest.raises(GradientError, match=r"torch\.vmap cannot run"):
        torch.func.jacrev(module)(x)
    with pytest.raises(GradientError, match="no forward-mode derivatives"):
        torch.func.jvp(module, (x,), (x,))
    with pytest.raises(GradientError, match="the gradients of a TorchModule cannot be differentiated again"):
        torch.func.grad(lambda x: torch.func.grad(lambda x: module(x).square().sum())(x).sum())(x)


# ---- what is changed between forward and backward ----


@pytest.mark.parametrize(
    "change",
    [
        lambda module, nnet: nnet.components["tdnn2"].linear_params.mul_(2.0),
        lambda module, nnet: (nnet.to(torch.float64), nnet.to(torch.float32), nnet.scale_(2.0)),
        lambda module, nnet: nnet.components["tdnn1.norm"].scale_(2.0),
        lambda module, nnet: module.train()(features(2, 6, seed=3)),
    ],
    ids=["component", "moved", "statistics", "a forward in training"],
)
def test_changes_before_backward_are_errors(change: Callable[..., object]):
    nnet = network(TDNN)
    module = nnet3.TorchModule(nnet)
    module(features(2, 6))
    output = module.eval()(features(2, 6, seed=2))
    change(module, nnet)
    with pytest.raises((GradientError, RuntimeError), match=r"changed between|modified by an inplace operation"):
        output.sum().backward()


def test_ivectors_and_several_outputs_with_guests():
    plain, module = _module(IVECTOR), _module(IVECTOR)
    module.xent = nn.Linear(4, 3, bias=False)
    with torch.no_grad():
        module.xent.weight.copy_(plain.xent.params)
    given = features(2, 5), torch.ones(2, 2)
    torch.testing.assert_close(module(*given), plain(*given))
    alone = nnet3.TorchModule(network(IVECTOR), outputs=["output"])
    alone.xent = nn.Linear(4, 3)
    alone(*given).sum().backward()
    assert alone.xent.weight.grad is None
    assert isinstance(alone.tanh, ComponentModule)
