"""LSTM layers, of single gates and with one component for all."""

from __future__ import annotations

from nnet3.model.xconfig.layers import lstm
from tests.xconfig.layer_contract import layer_contract

TestLstm = layer_contract(lstm)
