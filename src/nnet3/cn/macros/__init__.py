"""Macros: plain functions that make several nodes, as the chapter's do, and layers made of them."""

from nnet3.cn.macros.layers import affine, cnn_block, dnn, dnn_layer, macro_2w1b, macro_3w1b, tensor_layer
from nnet3.cn.macros.lstm import Lstm, blstm, fast_lstm, lstm

__all__ = [
    "Lstm",
    "affine",
    "blstm",
    "cnn_block",
    "dnn",
    "dnn_layer",
    "fast_lstm",
    "lstm",
    "macro_2w1b",
    "macro_3w1b",
    "tensor_layer",
]
