"""Convolutional layers."""

from __future__ import annotations

from nnet3.model.xconfig.layers import convolution
from tests.xconfig.layer_contract import layer_contract

TestConvolution = layer_contract(convolution)
