"""GRU layers with one component for the cell."""

from __future__ import annotations

from nnet3.xconfig.layers import fast_gru
from tests.xconfig.layer_contract import layer_contract

TestFastGru = layer_contract(fast_gru)
