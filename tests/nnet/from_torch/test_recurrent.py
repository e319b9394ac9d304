"""Recurrent modules give in a network what they give in PyTorch."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import nn

from nnet3.model.nnet import Nnet
from tests.effort import at_night
from tests.nnet.from_torch.module_values import largest_difference, settled


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_layers_directions_and_biases(kind: type[nn.RNNBase]) -> None:
    torch.manual_seed(0)
    for layers, both, bias in itertools.product((*at_night(1), 2), (False, True), (False, True)):
        module = kind(4, 3, layers, bidirectional=both, bias=bias, dropout=0.2 * (layers - 1))
        assert largest_difference(settled(module), 6) < 1e-9


def test_dropout_is_between_layers() -> None:
    for dropout, expected in ((0.0, []), (0.2, ["gru0.layer1.dropout", "gru0.layer2.dropout"])):
        nnet = Nnet.from_torch([nn.GRU(4, 3, 3, dropout=dropout)])
        assert [name for name in nnet.components if name.endswith("dropout")] == expected


@pytest.mark.filterwarnings("ignore:LSTM with projections")
def test_projections() -> None:
    torch.manual_seed(1)
    assert largest_difference(settled(nn.LSTM(4, 6, 2, proj_size=3, bidirectional=True), nn.Linear(6, 2)), 7) < 1e-9


def test_rectified_cells_behind_a_stride() -> None:
    torch.manual_seed(2)
    stack = settled(nn.Conv1d(3, 4, 1, stride=2), nn.RNN(4, 5, nonlinearity="relu"), nn.LSTM(5, 3), nn.GRU(3, 2))
    assert largest_difference(stack, 9, 2) < 1e-9


def test_an_lstm_is_recognised_as_a_layer() -> None:
    nnet = Nnet.from_torch([nn.LSTM(4, 6), nn.Linear(6, 2)])
    assert "fast-lstm-layer name=lstm0 cell-dim=6" in nnet.to_xconfig()
