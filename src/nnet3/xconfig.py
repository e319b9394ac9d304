"""Xconfigs: networks as lines of layers, expanded to nodes and components (docs/xconfig.md)."""

from nnet3.base.text.values import Rule as Rule
from nnet3.model.xconfig.describe import Description as Description, describe as describe
from nnet3.model.xconfig.expand import (
    ExpandedLayer as ExpandedLayer,
    ExpandedXconfig as ExpandedXconfig,
    expand_xconfig as expand_xconfig,
    is_xconfig as is_xconfig,
    layer_type as layer_type,
)
from nnet3.model.xconfig.expansion import Expander as Expander, Expansion as Expansion, Output as Output
from nnet3.model.xconfig.input_descriptor import Known as Known
from nnet3.model.xconfig.layer import (
    Key as Key,
    Layer as Layer,
    LayerType as LayerType,
    Pairs as Pairs,
    expand_layer as expand_layer,
    make_layer as make_layer,
)
from nnet3.model.xconfig.layer_types import LAYER_TYPES as LAYER_TYPES
from nnet3.model.xconfig.term import Term as Term
