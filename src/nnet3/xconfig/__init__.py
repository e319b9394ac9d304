"""Xconfigs: networks as lines of layers, expanded to nodes and components (docs/xconfig.md)."""

from nnet3.text.values import Rule
from nnet3.xconfig.describe import Description, describe
from nnet3.xconfig.expand import ExpandedLayer, ExpandedXconfig, expand_xconfig, is_xconfig, layer_type
from nnet3.xconfig.expansion import Expander, Expansion, Output
from nnet3.xconfig.input_descriptor import Known
from nnet3.xconfig.layer import Key, Layer, LayerType, Pairs, expand_layer, make_layer
from nnet3.xconfig.registry import LAYER_TYPES
from nnet3.xconfig.term import Term
