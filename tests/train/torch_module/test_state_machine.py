"""Whatever is done to a module, in any order: it does what a plain PyTorch module made anew for what it is now does."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from torch import Tensor, nn
from torch.nn.utils import parametrize
from torch.optim import swa_utils

import nnet3
from nnet3.errors import NetworkError
from nnet3.training.train.torch_module.component_module import ComponentModule
from tests.effort import draws
from tests.train.torch_module.networks import TDNN, features, network

CONFIG = TDNN.replace("RectifiedLinearComponent", "TanhComponent").replace("tdnn1.relu", "tdnn1.tanh")
EPSILON, SCALE = 1e-3, 0.800000011920929
TOLERANCE = {torch.float64: 1e-7, torch.float32: 2e-3}
NORM = "tdnn1.norm"
FACTORS = st.sampled_from([0.5, 2.0])


def halve(module: nn.Module, inputs: Any, output: Tensor) -> Tensor:
    return 0.5 * output


class Doubled(nn.Module):
    def forward(self, weight: Tensor) -> Tensor:
        return 2 * weight

    def right_inverse(self, weight: Tensor) -> Tensor:
        return weight / 2


class LowRank(nn.Module):
    def __init__(self, base: nn.Module) -> None:
        super().__init__()
        self.base = base
        self.down, self.up = nn.Linear(9, 2, bias=False), nn.Linear(2, 6, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.base(x) + self.up(self.down(x))
        return y


class Plain:
    """What the module should be: parameters by their names, structure, modes and running statistics."""

    def __init__(self, module: nnet3.TorchModule) -> None:
        self.parameters = {name: p.detach().clone() for name, p in module.named_parameters()}
        self.frozen: set[str] = set()
        self.activation, self.hooks = torch.tanh, 0
        self.training = True
        self.momentum = SCALE
        self.count, self.sum, self.sumsq = 0.0, torch.zeros(6).double(), torch.zeros(6).double()

    def affine(self, x: Tensor, given: dict[str, Tensor], prefix: str = "tdnn1.affine.") -> Tensor:
        if f"{prefix}down.weight" in given:
            low = x @ given[f"{prefix}down.weight"].t() @ given[f"{prefix}up.weight"].t()
            return self.affine(x, given, f"{prefix}base.") + low
        own = f"{prefix}linear_params" in given
        weight, bias = ("linear_params", "bias_params") if own else ("weight", "bias")
        return x @ given[prefix + weight].t() + given[prefix + bias]

    def __call__(self, x: Tensor, lengths: list[int], given: dict[str, Tensor]) -> Tensor:
        """(batch, frames, 3) -> (batch, frames, 5); running statistics change in training."""
        rows = []
        for sequence, length in zip(x, lengths, strict=True):
            t = torch.arange(-3, length + 3).clamp(0, length - 1)
            padded = sequence[t]
            rows.append(torch.cat([padded[:-2], padded[1:-1], padded[2:]], dim=1))
        hidden = self.activation(self.affine(torch.cat(rows), given)) * 0.5**self.hooks
        pieces = self.norm(hidden).split([length + 4 for length in lengths])
        weight = given.get("tdnn2.linear_params")
        if weight is None:
            weight = 2 * given["tdnn2.parametrizations.linear_params.original"]
        output = x.new_zeros(*x.shape[:2], 5)
        found = []
        for piece, length in zip(pieces, lengths, strict=True):
            y = torch.cat([piece[:-4], piece[2:-2], piece[4:]], dim=1) @ weight.t() + given["tdnn2.bias_params"]
            found.append(nn.functional.pad(y.log_softmax(1), (0, 0, 0, x.shape[1] - length)))
        return output + torch.stack(found)

    def norm(self, x: Tensor) -> Tensor:
        if self.training:
            mean, variance = x.mean(0), x.var(0, correction=0)
            self.add(x.detach())
        else:
            count = self.count or 1.0
            mean, square = (self.sum / count).to(x), (self.sumsq / count).to(x)
            variance = square - mean**2 if self.count else torch.ones(6).to(x)
        return (x - mean) / (variance + EPSILON).sqrt()

    def add(self, x: Tensor) -> None:
        self.count = self.momentum * (self.count + len(x))
        self.sum = self.momentum * (self.sum + x.double().sum(0))
        self.sumsq = self.momentum * (self.sumsq + x.double().square().sum(0))

    def rename(self, old: str, new: str, factor: float = 1.0) -> None:
        self.parameters = {
            name.replace(old, new): factor * value if old in name else value for name, value in self.parameters.items()
        }
        self.frozen = {name.replace(old, new) for name in self.frozen}

    def scale(self, factor: float, only: str = "") -> None:
        self.parameters = {n: factor * value if only in n else value for n, value in self.parameters.items()}


@settings(max_examples=draws(8), stateful_step_count=14, report_multiple_bugs=False)
class Modules(RuleBasedStateMachine):
    @initialize()
    def make(self) -> None:
        self.nnet = network(CONFIG)
        self.module = nnet3.TorchModule(self.nnet).double()
        self.plain, self.dtype, self.number = Plain(self.module), torch.float64, 0

    @property
    def is_native(self) -> bool:
        """Whether all parameters are the network's own."""
        return all(".weight" not in name and "original" not in name for name in self.plain.parameters)

    @property
    def is_parametrized(self) -> bool:
        return any("original" in name for name in self.plain.parameters)

    def batch(self, frames: int = 5) -> Tensor:
        self.number += 1
        return features(2, frames, seed=self.number).to(self.dtype)

    def grads(self, x: Tensor, lengths: list[int]) -> tuple[list[Any], list[Any]]:
        """Outputs, derivatives of x and gradients: of the module, and what they should be."""
        mine, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
        self.module.zero_grad()
        output = self.module(mine, lengths=lengths)
        output.square().sum().backward()
        named = dict(self.module.named_parameters())
        found = [output.detach(), mine.grad, {name: p.grad for name, p in named.items()}]
        given = {
            name: value.clone().requires_grad_(name not in self.plain.frozen)
            for name, value in self.plain.parameters.items()
        }
        expected = self.plain(theirs, lengths, given)
        expected.square().sum().backward()
        return found, [expected.detach(), theirs.grad, {name: p.grad for name, p in given.items()}]

    def close(self, found: Any, expected: Any) -> None:
        tolerance = TOLERANCE[self.dtype]
        if isinstance(expected, dict):
            assert found.keys() == expected.keys()
            for name, value in expected.items():
                assert (found[name] is None) == (value is None), name
                if value is not None:
                    self.close(found[name], value)
            return
        scale = max(1.0, float(expected.abs().max()))
        torch.testing.assert_close(found, expected, atol=tolerance * scale, rtol=tolerance)

    @invariant()
    def it_is_what_it_should_be(self) -> None:
        for lengths in ([5, 5], [5, 3]):
            for found, expected in zip(*self.grads(self.batch(), lengths), strict=True):
                self.close(found, expected)
        norm = self.module.get_submodule(NORM)
        assert float(norm.count) == pytest.approx(self.plain.count)
        assert self.nnet.components[NORM].count == float(norm.count)
        self.close(norm.stats_sumsq, self.plain.sumsq)
        # From here on with what the module has: roundings shall not add up.
        values = {name: p.detach().clone() for name, p in self.module.named_parameters()}
        self.close(values, self.plain.parameters)
        self.plain.parameters = values
        self.plain.count, self.plain.sum, self.plain.sumsq = (
            float(norm.count),
            norm.stats_sum.clone(),
            norm.stats_sumsq.clone(),
        )

    # ---- modes, types, places ----

    @rule(training=st.booleans(), whole=st.booleans())
    def set_mode(self, training: bool, whole: bool) -> None:
        (self.module if whole else self.module.get_submodule(NORM)).train(training)
        self.plain.training = training

    @rule(dtype=st.sampled_from([torch.float32, torch.float64]))
    def convert(self, dtype: torch.dtype) -> None:
        self.module.to(dtype)
        self._converted(dtype)

    @precondition(lambda self: self.is_native)
    @rule(dtype=st.sampled_from([torch.float32, torch.float64]))
    def convert_the_network(self, dtype: torch.dtype) -> None:
        self.nnet.to(dtype)
        self._converted(dtype)

    def _converted(self, dtype: torch.dtype) -> None:
        self.dtype = dtype
        self.plain.parameters = {name: value.to(dtype) for name, value in self.plain.parameters.items()}

    @rule(part=st.sampled_from(["", "tdnn1", "tdnn2"]))
    def convert_to_nothing(self, part: str) -> None:
        with pytest.raises(NetworkError, match="'meta'"):
            self.module.get_submodule(part).to("meta")

    @rule()
    def share_memory(self) -> None:
        self.module.share_memory()

    # ---- values ----

    @rule(factor=FACTORS, how=st.sampled_from(["scale_", "flat", "component"]))
    def change_the_network(self, factor: float, how: str) -> None:
        """What it owns: parameters of components whose module has them."""
        if how == "scale_":
            self.nnet.scale_(factor)
            self.plain.count *= factor
            self.plain.sum, self.plain.sumsq = factor * self.plain.sum, factor * self.plain.sumsq
        elif how == "flat":
            self.nnet.flat_parameters()[0].mul_(factor)
        else:
            for name in ("tdnn1.affine", "tdnn2"):
                for tensor in self.nnet.components[name].parameters().values():
                    tensor.mul_(factor)
        self.plain.scale(factor, "_params")
        if self.is_parametrized:  # its original is no parameter of the component
            self.plain.scale(1 / factor, "original")

    @rule(factor=FACTORS, how=st.sampled_from(["in place", "data", "new", "vector"]))
    def change_the_module(self, factor: float, how: str) -> None:
        with torch.no_grad():
            if how == "vector":
                vector = nn.utils.parameters_to_vector(self.module.parameters())
                nn.utils.vector_to_parameters(factor * vector, self.module.parameters())
            for name, parameter in list(self.module.named_parameters()):
                if how == "in place":
                    parameter.mul_(factor)
                elif how == "data":
                    parameter.data = factor * parameter.data
                elif how == "new":
                    parent, _, last = name.rpartition(".")
                    new = nn.Parameter(factor * parameter, parameter.requires_grad)
                    setattr(self.module.get_submodule(parent), last, new)
        self.plain.scale(factor)

    @rule(kind=st.sampled_from(["plain", "foreach", "fused"]))
    def step(self, kind: str) -> None:
        expected = self.grads(self.batch(), [5, 4])[1]
        wanted = [p for p in self.module.parameters() if p.requires_grad]
        if not wanted:
            return
        options = {} if kind == "plain" else {kind: True}
        torch.optim.SGD(wanted, lr=0.01, **options).step()
        for name, gradient in expected[2].items():
            if gradient is not None:
                self.plain.parameters[name] = self.plain.parameters[name] - 0.01 * gradient

    @rule(factor=FACTORS, assign=st.booleans())
    def load(self, factor: float, assign: bool) -> None:
        state = {name: value.clone() for name, value in self.module.state_dict().items()}
        names = {name for name in state if not name.startswith(NORM)}
        requires = {name: p.requires_grad for name, p in self.module.named_parameters()}
        self.module.load_state_dict({n: factor * v if n in names else v for n, v in state.items()}, assign=assign)
        assert requires == {name: p.requires_grad for name, p in self.module.named_parameters()}
        self.plain.scale(factor)

    @rule()
    def collect_statistics_anew(self) -> None:
        batches, training = [self.batch(), self.batch(4)], self.plain.training
        swa_utils.update_bn(batches, self.module)
        self.module.get_submodule(NORM).train(training)
        self.plain.count, self.plain.sum, self.plain.sumsq = 0.0, 0 * self.plain.sum, 0 * self.plain.sumsq
        self.plain.training, self.plain.momentum = True, 1.0
        for batch in batches:
            self.plain(batch, [batch.shape[1]] * 2, self.plain.parameters)
        self.plain.training, self.plain.momentum = training, SCALE

    # ---- copies ----

    @rule()
    def copy(self) -> None:
        before = self.module
        self.module = copy.deepcopy(before)
        self._is_a_copy(before)

    @precondition(lambda self: not self.is_parametrized)
    @rule()
    def pickle(self) -> None:
        before = self.module
        self.module = pickle.loads(pickle.dumps(before))
        self._is_a_copy(before)

    def _is_a_copy(self, before: nnet3.TorchModule) -> None:
        self.nnet = self.module._network
        with torch.no_grad():
            for parameter in before.parameters():
                parameter.fill_(torch.nan)
            for tensor in before._network.flat_parameters():
                tensor.fill_(torch.nan)
        for name, parameter in self.module.named_parameters():
            assert parameter.requires_grad == (name not in self.plain.frozen)

    # ---- what learns ----

    @rule(data=st.data(), frozen=st.booleans())
    def freeze(self, data: st.DataObject, frozen: bool) -> None:
        name = data.draw(st.sampled_from(sorted(self.plain.parameters)))
        self.module.get_parameter(name).requires_grad_(not frozen)
        (self.plain.frozen.add if frozen else self.plain.frozen.discard)(name)

    # ---- other modules ----

    @precondition(lambda self: not any("base" in name for name in self.plain.parameters))
    @rule()
    def wrap(self) -> None:
        affine = self.module.tdnn1.affine
        self.plain.rename("tdnn1.affine.", "tdnn1.affine.base.")
        torch.manual_seed(self.number)
        self.module.tdnn1.affine = LowRank(affine).to(self.dtype)
        for part in ("down", "up"):
            weight = self.module.tdnn1.affine.get_parameter(f"{part}.weight")
            self.plain.parameters[f"tdnn1.affine.{part}.weight"] = weight.detach().clone()

    @precondition(lambda self: any("base" in name for name in self.plain.parameters))
    @rule()
    def unwrap(self) -> None:
        self.module.tdnn1.affine = self.module.tdnn1.affine.base
        for part in ("down", "up"):
            del self.plain.parameters[f"tdnn1.affine.{part}.weight"]
            self.plain.frozen.discard(f"tdnn1.affine.{part}.weight")
        self.plain.rename("tdnn1.affine.base.", "tdnn1.affine.")

    @precondition(lambda self: "tdnn1.affine.linear_params" in self.plain.parameters)
    @rule()
    def replace(self) -> None:
        torch.manual_seed(self.number)
        self.module.tdnn1.affine = layer = nn.Linear(9, 6).to(self.dtype)
        for own, name in (("linear_params", "weight"), ("bias_params", "bias")):
            self.plain.rename(f"tdnn1.affine.{own}", f"tdnn1.affine.{name}")
            self.plain.parameters[f"tdnn1.affine.{name}"] = layer.get_parameter(name).detach().clone()
            self.plain.frozen.discard(f"tdnn1.affine.{name}")

    @rule(activation=st.sampled_from([(nn.Tanh, torch.tanh), (nn.SiLU, nn.functional.silu)]))
    def replace_the_activation(self, activation: tuple[Any, Any]) -> None:
        self.module.tdnn1.tanh = activation[0]()
        self.plain.activation, self.plain.hooks = activation[1], 0

    @precondition(lambda self: not self.is_parametrized)
    @rule()
    def parametrize(self) -> None:
        parametrize.register_parametrization(self.module.tdnn2, "linear_params", Doubled())
        self.plain.rename("tdnn2.linear_params", "tdnn2.parametrizations.linear_params.original", 0.5)

    @precondition(lambda self: self.is_parametrized)
    @rule()
    def take_parametrization_away(self) -> None:
        parametrize.remove_parametrizations(self.module.tdnn2, "linear_params")
        self.plain.rename("tdnn2.parametrizations.linear_params.original", "tdnn2.linear_params", 2.0)

    @rule()
    def hook(self) -> None:
        self.module.tdnn1.tanh.register_forward_hook(halve)
        self.plain.hooks += 1

    @rule()
    def unhook(self) -> None:
        self.module.tdnn1.tanh._forward_hooks.clear()
        self.plain.hooks = 0

    @rule(factor=FACTORS)
    def give_parameters_for_one_call(self, factor: float) -> None:
        given = {name: factor * value for name, value in self.plain.parameters.items()}
        x = self.batch()
        self.close(torch.func.functional_call(self.module, given, (x,)).detach(), self.plain(x, [5, 5], given))

    @precondition(lambda self: not any("base" in name for name in self.plain.parameters))
    @rule()
    def take_the_network(self) -> None:
        if not isinstance(self.module.tdnn1.tanh, ComponentModule):
            with pytest.raises(NetworkError, match="put the component's own module back"):
                self.module.nnet  # noqa: B018
            return
        assert self.module.nnet is self.nnet
        weight = self.plain.parameters.get("tdnn2.linear_params")
        if weight is None:
            weight = 2 * self.plain.parameters["tdnn2.parametrizations.linear_params.original"]
        self.close(self.nnet.components["tdnn2"].linear_params, weight)
        x, training = self.batch(), self.plain.training
        self.plain.training = False
        expected = self.plain(x, [5, 5], self.plain.parameters)[0] if self.plain.hooks == 0 else None
        self.plain.training = training
        if expected is not None:
            self.close(self.nnet.compute(x[0]), expected)


@pytest.mark.filterwarnings("ignore:a batch-norm component in test mode has no statistics")
class TestModules(Modules.TestCase):  # type: ignore[misc, name-defined]
    """Sequences of up to 14 steps."""
