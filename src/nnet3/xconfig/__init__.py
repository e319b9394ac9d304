"""Xconfigs: networks as lines of layers, expanded to nodes and components (docs/xconfig.md)."""

from nnet3.text.values import Rule as Rule
from nnet3.xconfig.describe import Description as Description
from nnet3.xconfig.describe import describe as describe
from nnet3.xconfig.expand import ExpandedLayer as ExpandedLayer
from nnet3.xconfig.expand import ExpandedXconfig as ExpandedXconfig
from nnet3.xconfig.expand import expand_xconfig as expand_xconfig
from nnet3.xconfig.expand import is_xconfig as is_xconfig
from nnet3.xconfig.expand import layer_type as layer_type
from nnet3.xconfig.expansion import Expander as Expander
from nnet3.xconfig.expansion import Expansion as Expansion
from nnet3.xconfig.expansion import Output as Output
from nnet3.xconfig.expansion import expand_layer as expand_layer
from nnet3.xconfig.input_descriptor import Known as Known
from nnet3.xconfig.layer import Key as Key
from nnet3.xconfig.layer import Layer as Layer
from nnet3.xconfig.layer import LayerType as LayerType
from nnet3.xconfig.layer import make_layer as make_layer
from nnet3.xconfig.registry import LAYER_TYPES as LAYER_TYPES
from nnet3.xconfig.term import Term as Term
