"""Inputs, outputs and output layers."""

from __future__ import annotations

from nnet3.model.xconfig.layers import input_output
from tests.xconfig.layer_contract import layer_contract

TestInputOutput = layer_contract(input_output)
