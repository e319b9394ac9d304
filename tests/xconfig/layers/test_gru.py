"""GRU layers, of single gates and with one component for all."""

from __future__ import annotations

from nnet3.model.xconfig.layers import gru
from tests.xconfig.layer_contract import layer_contract

TestGru = layer_contract(gru)
