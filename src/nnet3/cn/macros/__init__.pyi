# The public names of nnet3.cn.macros, and where each lives.
from .layers import (
    Gru as Gru,
    Lstm as Lstm,
    affine as affine,
    batch_norm as batch_norm,
    blstm as blstm,
    cnn_block as cnn_block,
    dnn as dnn,
    dnn_layer as dnn_layer,
    fast_lstm as fast_lstm,
    gru as gru,
    lstm as lstm,
    macro_2w1b as macro_2w1b,
    macro_3w1b as macro_3w1b,
    multi_head_attention as multi_head_attention,
    tensor_layer as tensor_layer,
)
