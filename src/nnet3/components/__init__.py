"""Components: the parts of a network that compute. One family a file; natural gradient."""

# every family, so that its types are registered
from nnet3.components import affine as affine
from nnet3.components import backprop_truncation as backprop_truncation
from nnet3.components import batch_norm as batch_norm
from nnet3.components import block_affine as block_affine
from nnet3.components import clip_gradient as clip_gradient
from nnet3.components import column_map as column_map
from nnet3.components import composite as composite
from nnet3.components import constant as constant
from nnet3.components import convolution as convolution
from nnet3.components import distribute as distribute
from nnet3.components import dropout as dropout
from nnet3.components import fixed as fixed
from nnet3.components import general_dropout as general_dropout
from nnet3.components import gru_nonlinearity as gru_nonlinearity
from nnet3.components import linear as linear
from nnet3.components import lstm_nonlinearity as lstm_nonlinearity
from nnet3.components import max_pooling as max_pooling
from nnet3.components import no_op as no_op
from nnet3.components import normalize as normalize
from nnet3.components import output_gru_nonlinearity as output_gru_nonlinearity
from nnet3.components import per_element_offset as per_element_offset
from nnet3.components import per_element_scale as per_element_scale
from nnet3.components import rectified_linear as rectified_linear
from nnet3.components import reduction as reduction
from nnet3.components import repeated_affine as repeated_affine
from nnet3.components import restricted_attention as restricted_attention
from nnet3.components import scale_and_offset as scale_and_offset
from nnet3.components import sigmoid_tanh as sigmoid_tanh
from nnet3.components import softmax as softmax
from nnet3.components import spec_augment as spec_augment
from nnet3.components import statistics_extraction as statistics_extraction
from nnet3.components import statistics_pooling as statistics_pooling
from nnet3.components import tdnn as tdnn
from nnet3.components import time_height_convolution as time_height_convolution
from nnet3.components.base import Component, Properties
from nnet3.components.random_source import RandomSource
from nnet3.components.registry import COMPONENT_TYPES, create, create_from_line, read, read_from
from nnet3.components.updatable import UpdatableComponent

__all__ = [
    "COMPONENT_TYPES",
    "Component",
    "Properties",
    "RandomSource",
    "UpdatableComponent",
    "create",
    "create_from_line",
    "read",
    "read_from",
]
