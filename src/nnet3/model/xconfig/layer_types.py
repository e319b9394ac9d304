"""All layer types, by family and by name."""

from __future__ import annotations

from nnet3.model.xconfig.layers import (
    attention,
    basic,
    convolution,
    factorised,
    feature_maps,
    gru,
    input_output,
    lstm,
    residual,
    single_component,
    statistics,
    transforms,
)

FAMILIES = {
    "Inputs and outputs": input_output.LAYER_TYPES,
    "An affine transform and nonlinearities": basic.LAYER_TYPES,
    "Single components": single_component.LAYER_TYPES,
    "Transforms of the input": transforms.LAYER_TYPES,
    "Factorised layers": factorised.LAYER_TYPES,
    "Convolutions": convolution.LAYER_TYPES,
    "Residual blocks": residual.LAYER_TYPES,
    "Whole filters": feature_maps.LAYER_TYPES,
    "Attention": attention.LAYER_TYPES,
    "Statistics": statistics.LAYER_TYPES,
    "LSTMs, a component for each part": lstm.LAYER_TYPES,
    "Fast LSTMs": lstm.FAST_LAYER_TYPES,
    "GRUs, a component for each part": gru.LAYER_TYPES,
    "Fast GRUs": gru.FAST_LAYER_TYPES,
}
LAYER_TYPES = {layer_type.name: layer_type for family in FAMILIES.values() for layer_type in family}
