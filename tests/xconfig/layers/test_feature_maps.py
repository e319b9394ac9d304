"""Layers that combine or average feature maps."""

from __future__ import annotations

from nnet3.model.xconfig.layers import feature_maps
from tests.xconfig.layer_contract import layer_contract

TestFeatureMaps = layer_contract(feature_maps)
