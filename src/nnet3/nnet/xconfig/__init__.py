"""Xconfigs: networks as lines of layers, expanded to nodes and components (docs/xconfig.md)."""

from nnet3.nnet.xconfig.describe import Description, describe
from nnet3.nnet.xconfig.expand import ExpandedLayer, ExpandedXconfig, expand_xconfig, is_xconfig, layer_type
from nnet3.nnet.xconfig.expansion import Expander, Expansion, Output, expand_layer
from nnet3.nnet.xconfig.key import Key
from nnet3.nnet.xconfig.layer import Layer, LayerType, make_layer
from nnet3.nnet.xconfig.registry import LAYER_TYPES
from nnet3.nnet.xconfig.scope import Known
from nnet3.nnet.xconfig.term import Term
from nnet3.text.values import Rule

__all__ = [
    "LAYER_TYPES",
    "Description",
    "ExpandedLayer",
    "ExpandedXconfig",
    "Expander",
    "Expansion",
    "Key",
    "Known",
    "Layer",
    "LayerType",
    "Output",
    "Rule",
    "Term",
    "describe",
    "expand_layer",
    "expand_xconfig",
    "is_xconfig",
    "layer_type",
    "make_layer",
]
