"""Computational networks: directed graphs of matrix operations; see docs/computational_networks.md."""

from nnet3.cn import macros, operators as operators
from nnet3.cn.asynchronous import AsynchronousEvaluator
from nnet3.cn.bridge.from_nnet import from_nnet
from nnet3.cn.check_gradients import check_gradients
from nnet3.cn.copying import clone
from nnet3.cn.network import Network
from nnet3.cn.node import Node, as_node, scope
from nnet3.cn.nodes import sequence
from nnet3.cn.nodes.activations import copy, exp, log, log_softmax, negate, relu, sigmoid, softmax, tanh
from nnet3.cn.nodes.columns import (
    batch_norm,
    layer_norm,
    log_sum_exp_rows,
    max_rows,
    mean_rows,
    min_rows,
    row_step,
    sum_rows,
    transpose,
)
from nnet3.cn.nodes.component import component
from nnet3.cn.nodes.convolution import convolution, transposed_convolution
from nnet3.cn.nodes.cosine import cos
from nnet3.cn.nodes.criteria import classification_error, cross_entropy, cross_entropy_with_softmax, square_error
from nnet3.cn.nodes.delay import delay
from nnet3.cn.nodes.dropout import dropout
from nnet3.cn.nodes.embedding import embedding
from nnet3.cn.nodes.functions import (
    abs,
    clip,
    divide,
    equal,
    greater,
    greater_equal,
    less,
    less_equal,
    maximum,
    minimum,
    power,
    sqrt,
    where,
)
from nnet3.cn.nodes.leaves import constant, input, parameter
from nnet3.cn.nodes.norms import l1_norm, l2_norm, squared_norm, sum_elements
from nnet3.cn.nodes.pooling import average_pooling, max_pooling
from nnet3.cn.nodes.products import khatri_rao_product, times
from nnet3.cn.nodes.recurrent import lstm_layer
from nnet3.cn.nodes.rows import row_slice, row_stack
from nnet3.cn.nodes.scaling import diag_times, scale
from nnet3.cn.nodes.sequence import additive_attention, attention, broadcast_as, ctc
from nnet3.cn.nodes.statistics import inv_std_dev, mean, per_dim_mean_var_norm
from nnet3.cn.nodes.sums import element_times, minus, plus
from nnet3.cn.nodes.torch_function import torch_function
from nnet3.cn.operation import Operation
from nnet3.cn.pieces import truncated
from nnet3.cn.reader import Minibatches
from nnet3.cn.registry import register
from nnet3.cn.samples import Sequences, sequences
from nnet3.cn.saving import load, save
from nnet3.cn.shape import Shape
from nnet3.cn.text_form import from_text, to_text
from nnet3.cn.training import sgd_step, train

__all__ = [
    "AsynchronousEvaluator", "Minibatches", "Network", "Node", "Operation", "Sequences", "Shape", "abs",
    "additive_attention", "as_node", "attention", "average_pooling", "batch_norm", "broadcast_as",
    "check_gradients", "classification_error", "clip", "clone", "component", "constant", "convolution", "copy",
    "cos", "cross_entropy", "cross_entropy_with_softmax", "ctc", "delay", "diag_times", "divide", "dropout",
    "element_times", "embedding", "equal", "exp", "from_nnet", "from_text", "greater", "greater_equal", "input",
    "inv_std_dev", "khatri_rao_product", "l1_norm", "l2_norm", "layer_norm", "less", "less_equal", "load", "log",
    "log_softmax", "log_sum_exp_rows", "lstm_layer", "macros", "max_pooling", "max_rows", "maximum", "mean",
    "mean_rows", "min_rows", "minimum", "minus", "negate", "parameter", "per_dim_mean_var_norm", "plus", "power",
    "register", "relu", "row_slice", "row_stack", "row_step", "save", "scale", "scope", "sequence", "sequences",
    "sgd_step", "sigmoid", "softmax", "sqrt", "square_error", "squared_norm", "sum_elements", "sum_rows", "tanh",
    "times", "to_text", "torch_function", "train", "transpose", "transposed_convolution", "truncated", "where",
]  # fmt: skip
