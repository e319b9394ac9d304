"""Layers of statistics over time."""

from __future__ import annotations

from nnet3.model.xconfig.layers import statistics
from tests.xconfig.layer_contract import layer_contract

TestStatistics = layer_contract(statistics)
