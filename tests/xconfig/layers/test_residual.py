"""Residual blocks."""

from __future__ import annotations

from nnet3.model.xconfig.layers import residual
from tests.xconfig.layer_contract import layer_contract

TestResidual = layer_contract(residual)
