"""Modules without memory give in a network what they give in PyTorch."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from nnet3.errors import ArgumentError
from nnet3.model.nnet import Nnet
from tests.nnet.from_torch.module_values import largest_difference, settled

STACKS = {
    "affine": lambda: [nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 3, bias=False), nn.LogSoftmax(-1)],
    "batch norm": lambda: [nn.Linear(5, 7), nn.BatchNorm1d(7), nn.Tanh(), nn.BatchNorm1d(7, affine=False, eps=0.1)],
    "without padding": lambda: [nn.Conv1d(5, 8, 3, dilation=2), nn.Sigmoid(), nn.Conv1d(8, 4, 4, bias=False)],
    "padding": lambda: [nn.Conv1d(5, 8, 3, padding="same", dilation=3), nn.Conv1d(8, 8, 5, padding=2)],
    "padding between": lambda: [nn.Conv1d(5, 4, 3), nn.Conv1d(4, 4, 3, padding=1), nn.Conv1d(4, 3, 2, padding="valid")],
    "even kernel": lambda: [nn.Conv1d(5, 4, 4, padding="same"), nn.Conv1d(4, 4, 2, padding="same")],
    "groups": lambda: [nn.Conv1d(6, 4, 3, groups=2), nn.Conv1d(4, 8, 1, groups=4), nn.Conv1d(8, 8, 3, groups=8)],
    "norms of rows": lambda: [nn.LayerNorm(6), nn.Linear(6, 5), nn.RMSNorm(5, eps=0.3), nn.RMSNorm(5)],
    "norms without": lambda: [nn.LayerNorm(6, elementwise_affine=False), nn.RMSNorm(6, None, False), nn.Linear(6, 2)],
    "norm without bias": lambda: [nn.LayerNorm(6, bias=False, eps=1e-2)],
    "gates": lambda: [nn.SiLU(), nn.Linear(4, 4), nn.LeakyReLU(0.2), nn.Softmax(-1), nn.Identity()],
    "dropout": lambda: [nn.Dropout(0.3), nn.Linear(4, 3), nn.Dropout1d(1.0)],
}


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths")
@pytest.mark.parametrize("name", STACKS)
def test_stacks(name: str) -> None:
    torch.manual_seed(0)
    assert largest_difference(settled(*STACKS[name]()), 11) < 1e-9


def test_rows_behind_a_stride_are_further_apart() -> None:
    torch.manual_seed(1)
    stack = settled(
        nn.Conv1d(4, 6, 3, padding=1, stride=3), nn.ReLU(), nn.Conv1d(6, 4, 3, padding=1), nn.Conv1d(4, 3, 1)
    )
    assert largest_difference(stack, 13, 3) < 1e-9
    nnet = Nnet.from_torch(nn.Sequential(nn.Conv1d(4, 6, 3, stride=3), nn.Conv1d(6, 2, 3)))
    assert (nnet.left_context, nnet.right_context) == (4, 4)


def test_small_scales_of_batch_norm_stay() -> None:
    torch.manual_seed(2)
    norm = nn.BatchNorm1d(3)
    norm.weight.data.copy_(torch.tensor([0.0, 1e-7, -1e-5]))
    assert largest_difference([norm.eval()], 4) < 1e-12


def test_dropout_draws_numbers_of_its_own_for_each_frame() -> None:
    nnet = Nnet.from_torch([nn.Linear(3, 3), nn.Dropout(0.25), nn.Dropout1d(0.5)])
    info = nnet.info()
    assert "type=GeneralDropoutComponent, dim=3, block-dim=3, dropout-proportion=0.25, time-period=1" in info
    assert "type=GeneralDropoutComponent, dim=3, block-dim=3, dropout-proportion=0.5\n" in info


@pytest.mark.parametrize(
    ("module", "words"),
    [
        (nn.Conv1d(2, 2, 3, padding=2), "padding must be 0, or zeros, as many as keep the number of frames: 1 on each"),
        (nn.Conv1d(2, 2, 3, padding=1, padding_mode="reflect"), "pads otherwise than a network can"),
        (nn.Conv1d(2, 2, 2, padding="same", dilation=2), r"looks at frames \[-1, 1\] and not at 0"),
        (nn.BatchNorm1d(2, track_running_stats=False), "has no running statistics"),
        (nn.LayerNorm((2, 2)), "normalises over 2 dimensions"),
        (nn.Sequential(nn.Linear(2, 2), nn.Softmax(0)), "module '1', .* sums over dimension 0"),
    ],
)
def test_settings_that_no_network_has(module: nn.Module, words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        Nnet.from_torch(module)
