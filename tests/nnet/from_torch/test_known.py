"""Ways through containers, names, files; modules that are refused."""

from __future__ import annotations

import collections
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import nn

import nnet3
from nnet3.errors import ArgumentError
from nnet3.model.nnet import Nnet
from nnet3.model.nnet.from_torch.known import MODULES
from tests.effort import draws
from tests.nnet.from_torch.module_values import largest_difference, settled, values_of

_DRAWN = {
    "linear": lambda: nn.Linear(4, 4),
    "conv": lambda: nn.Conv1d(4, 4, 3, dilation=2),
    "padded": lambda: nn.Conv1d(4, 4, 3, padding=1),
    "norm": lambda: nn.BatchNorm1d(4),
    "layer norm": lambda: nn.LayerNorm(4),
    "lstm": lambda: nn.LSTM(4, 2, bidirectional=True),
    "gru": lambda: nn.GRU(4, 4),
    "relu": nn.ReLU,
    "tanh": nn.Tanh,
}


@settings(max_examples=draws(12))
@given(st.lists(st.sampled_from(sorted(_DRAWN)), min_size=1, max_size=5), st.integers(0, 1000))
def test_any_stack(names: list[str], seed: int) -> None:
    torch.manual_seed(seed)
    assert largest_difference(settled(nn.Linear(3, 4), *(_DRAWN[name]() for name in names)), 5) < 1e-9


@pytest.mark.parametrize("binary", [True, False])
def test_the_network_is_one_of_kaldi(tmp_path: Path, binary: bool) -> None:
    torch.manual_seed(0)
    stack = settled(nn.LSTM(4, 6), nn.Conv1d(6, 5, 3, padding=1), nn.BatchNorm1d(5), nn.Dropout(0.1), nn.LogSoftmax(-1))
    nnet3.Nnet.from_torch(stack).save(tmp_path / "final.raw", binary=binary)
    read = nnet3.load_nnet(tmp_path / "final.raw")
    features = torch.randn(9, 4)
    assert read.dtype == torch.float32
    torch.testing.assert_close(read.compute(features), values_of(stack, features), rtol=2e-6, atol=2e-6)


def test_the_network_goes_on_learning() -> None:
    torch.manual_seed(0)
    original = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    before = original[0].weight.detach().clone()
    module = nnet3.TorchModule(Nnet.from_torch(original))
    features, target = torch.randn(1, 8, 3), torch.randn(1, 8, 2)
    mine = (module(features) - target).square().sum()
    theirs = (original(features) - target).square().sum()
    mine.backward()
    theirs.backward()
    learnt = module.nnet.components["linear0"]
    torch.testing.assert_close(learnt.linear_params, before)
    gradient = dict(module.named_parameters())["linear0.linear_params"].grad
    torch.testing.assert_close(gradient, original[0].weight.grad)


def test_names_are_paths() -> None:
    encoder = nn.Sequential(collections.OrderedDict(first=nn.Linear(3, 4), input=nn.ReLU()))
    shared = nn.Linear(4, 4)
    nnet = Nnet.from_torch([nn.ModuleList([encoder]), shared, nn.Sequential(shared)])
    assert [*nnet.components] == ["linear0.0.first", "relu0.0.input", "linear1", "linear2.0"]
    named = Nnet.from_torch(nn.Sequential(collections.OrderedDict(input=nn.Linear(3, 4), out=nn.ReLU())))
    assert [*named.components] == ["linearinput", "out"]
    assert [*Nnet.from_torch(nn.Linear(3, 4)).components] == ["linear"]


def test_weights_that_are_computed() -> None:
    torch.manual_seed(0)
    module = nn.utils.parametrizations.weight_norm(nn.Linear(3, 4))
    assert largest_difference([module], 3) < 1e-12


def test_dims_of_modules_that_take_any() -> None:
    assert Nnet.from_torch([nn.ReLU(), nn.Linear(3, 2)]).input_dims == {"input": 3}
    assert Nnet.from_torch(nn.ReLU(), input_dim=5).output_dims == {"output": 5}
    with pytest.raises(ArgumentError, match="give input_dim"):
        Nnet.from_torch(nn.ReLU())
    with pytest.raises(ArgumentError, match="input_dim is 4, but the first module that says takes 3 columns"):
        Nnet.from_torch([nn.ReLU(), nn.Linear(3, 2)], input_dim=4)
    with pytest.raises(ArgumentError, match=r"module '1', .* takes 4 columns, but those before it give 2"):
        Nnet.from_torch([nn.Linear(3, 2), nn.Linear(4, 2)])


class _Doubled(nn.Linear):
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return 2 * super().forward(input)


class _Residual(nn.Sequential):
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return input + super().forward(input)


def test_unknown_modules_are_named_beside_the_known_ones() -> None:
    with pytest.raises(ArgumentError, match=r"module '1\.0' is a Conv2d, of which no network can be made") as raised:
        Nnet.from_torch([nn.ReLU(), nn.Sequential(nn.Conv2d(1, 1, 1))])
    assert all(module.__name__ in str(raised.value) for module in MODULES)
    with pytest.raises(ArgumentError, match="module '0' is a _Doubled"):
        Nnet.from_torch([_Doubled(3, 2)])
    with pytest.raises(ArgumentError, match="module '_residual' is a _Residual"):
        Nnet.from_torch(_Residual(nn.Linear(3, 3)))


@pytest.mark.parametrize("wrong", [5, "model.pt", None, [nn.Linear(2, 2), torch.relu], nn.Linear])
def test_what_is_no_module(wrong: object) -> None:
    with pytest.raises(ArgumentError, match="takes modules of PyTorch, got"):
        Nnet.from_torch(wrong)  # type: ignore[arg-type]


def test_modules_that_are_not_ready() -> None:
    with pytest.raises(ArgumentError, match="has no parameters before it has seen data"):
        Nnet.from_torch(nn.LazyLinear(3))
    with pytest.raises(ArgumentError, match="needs at least one module"):
        Nnet.from_torch([nn.Sequential()])
    behind, before = nn.Linear(2, 2), nn.Linear(2, 2)
    behind.register_forward_hook(lambda module, args, output: output + 1)
    before.register_forward_pre_hook(lambda module, args: (args[0] + 1,))
    for hooked in (behind, before):
        with pytest.raises(ArgumentError, match="has hooks"):
            Nnet.from_torch(hooked)
