"""Layers of one component."""

from __future__ import annotations

from nnet3.model.xconfig.layers import single_component
from tests.xconfig.layer_contract import layer_contract

TestSingleComponent = layer_contract(single_component)
