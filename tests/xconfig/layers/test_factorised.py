"""Factorised layers."""

from __future__ import annotations

from nnet3.model.xconfig.layers import factorised
from tests.xconfig.layer_contract import layer_contract

TestFactorised = layer_contract(factorised)
