"""All layer types by name."""

from __future__ import annotations

from nnet3.nnet.xconfig.layers import basic, factorised, input_output, single_component, transforms

LAYER_TYPES = {
    layer_type.name: layer_type
    for family in (
        input_output.LAYER_TYPES,
        basic.LAYER_TYPES,
        single_component.LAYER_TYPES,
        transforms.LAYER_TYPES,
        factorised.LAYER_TYPES,
    )
    for layer_type in family
}
