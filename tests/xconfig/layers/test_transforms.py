"""Layers of fixed or given transforms."""

from __future__ import annotations

from nnet3.model.xconfig.layers import transforms
from tests.xconfig.layer_contract import layer_contract

TestTransforms = layer_contract(transforms)
