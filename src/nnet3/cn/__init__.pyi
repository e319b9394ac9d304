# The public names of nnet3.cn, and where each lives.
from . import macros as macros
from .asynchronous import AsynchronousEvaluator as AsynchronousEvaluator
from .bridge.from_nnet import from_nnet as from_nnet
from .copying import clone as clone
from .gradient_check import check_gradients as check_gradients
from .network import Network as Network
from .node import Node as Node, as_node as as_node, scope as scope
from .nodes import sequence as sequence
from .nodes.activations import (
    copy as copy,
    exp as exp,
    log as log,
    log_softmax as log_softmax,
    negate as negate,
    relu as relu,
    sigmoid as sigmoid,
    softmax as softmax,
    tanh as tanh,
)
from .nodes.columns import (
    batch_norm as batch_norm,
    layer_norm as layer_norm,
    log_sum_exp_rows as log_sum_exp_rows,
    max_rows as max_rows,
    mean_rows as mean_rows,
    min_rows as min_rows,
    row_slice as row_slice,
    row_stack as row_stack,
    row_step as row_step,
    sum_rows as sum_rows,
    transpose as transpose,
)
from .nodes.component import component as component
from .nodes.convolution import (
    average_pooling as average_pooling,
    convolution as convolution,
    max_pooling as max_pooling,
    transposed_convolution as transposed_convolution,
)
from .nodes.criteria import (
    classification_error as classification_error,
    cross_entropy as cross_entropy,
    cross_entropy_with_softmax as cross_entropy_with_softmax,
    square_error as square_error,
)
from .nodes.delay import delay as delay
from .nodes.dropout import dropout as dropout
from .nodes.embedding import embedding as embedding
from .nodes.functions import (
    abs as abs,
    clip as clip,
    divide as divide,
    equal as equal,
    greater as greater,
    greater_equal as greater_equal,
    less as less,
    less_equal as less_equal,
    maximum as maximum,
    minimum as minimum,
    power as power,
    sqrt as sqrt,
    where as where,
)
from .nodes.leaves import constant as constant, input as input, parameter as parameter
from .nodes.norms import (
    l1_norm as l1_norm,
    l2_norm as l2_norm,
    squared_norm as squared_norm,
    sum_elements as sum_elements,
)
from .nodes.products import (
    cos as cos,
    diag_times as diag_times,
    khatri_rao_product as khatri_rao_product,
    scale as scale,
    times as times,
)
from .nodes.recurrent import lstm_layer as lstm_layer
from .nodes.sequence import (
    additive_attention as additive_attention,
    attention as attention,
    broadcast_as as broadcast_as,
    ctc as ctc,
)
from .nodes.statistics import inv_std_dev as inv_std_dev, mean as mean, per_dim_mean_var_norm as per_dim_mean_var_norm
from .nodes.sums import element_times as element_times, minus as minus, plus as plus
from .nodes.torch_function import torch_function as torch_function
from .operation import Operation as Operation
from .operation_types import register as register
from .reader import Minibatches as Minibatches
from .samples import Sequences as Sequences, sequences as sequences
from .saving import load as load, save as save
from .shape import Shape as Shape
from .sparse import bags as bags
from .text_form import from_text as from_text, to_text as to_text
from .training import sgd_step as sgd_step, train as train
from .truncated_backprop import truncated as truncated
