"""Layers of an affine transform, nonlinearities and normalisation."""

from __future__ import annotations

from nnet3.model.xconfig.layers import basic
from tests.xconfig.layer_contract import layer_contract

TestBasic = layer_contract(basic)
