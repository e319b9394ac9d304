"""All layer types by name."""

from __future__ import annotations

from nnet3.nnet.xconfig.layers import (
    attention,
    basic,
    convolution,
    factorised,
    fast_gru,
    fast_lstm,
    feature_maps,
    gru,
    input_output,
    lstm,
    residual,
    single_component,
    statistics,
    transforms,
)

_FAMILIES = (
    input_output,
    basic,
    single_component,
    transforms,
    factorised,
    convolution,
    residual,
    feature_maps,
    attention,
    statistics,
    lstm,
    fast_lstm,
    gru,
    fast_gru,
)
LAYER_TYPES = {layer_type.name: layer_type for family in _FAMILIES for layer_type in family.LAYER_TYPES}
