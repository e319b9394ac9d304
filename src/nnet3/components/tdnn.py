"""TdnnComponent: an affine transform of the input at several time offsets (components.md 7.4)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from nnet3.components.base import Component, Properties
from nnet3.components.fields import read_matrix, read_number, write_matrix, write_vector
from nnet3.components.natural_gradient import OnlineNaturalGradient
from nnet3.components.natural_gradient_pair import NaturalGradientPair
from nnet3.components.orthonormal import OrthonormalComponent
from nnet3.components.registry import register
from nnet3.components.summary import format_number, mean_stddev, rms, row_and_column_norms
from nnet3.components.time_blocks import TimeBlocks, order_rows, time_blocks

if TYPE_CHECKING:
    from typing_extensions import Self

    from nnet3.components.random_source import RandomSource
    from nnet3.kaldi_io import Reader, Writer
    from nnet3.text import ConfigLine

_UPDATE_PERIOD = 4


@register
class TdnnComponent(NaturalGradientPair):
    """y(t) = b + sum_i W_i x(t + o_i), for the same n and x; all those inputs are required.

    Parameters: linear_params (output_dim, offsets * input_dim), the W_i side by side; bias_params (output_dim,), not
    there without bias.
    """

    type_name = "TdnnComponent"
    properties = Properties.UPDATABLE | Properties.REORDERS_INDEXES | Properties.BACKPROP_NEEDS_INPUT
    identity_indexes = False
    needs_indexes = True

    def __init__(self, time_offsets: tuple[int, ...], linear_params: Tensor, bias_params: Tensor | None) -> None:
        super().__init__()
        self.time_offsets = time_offsets
        self.linear_params = linear_params
        self.output_dim = linear_params.shape[0]
        self.input_dim = linear_params.shape[1] // len(time_offsets)
        self.use_natural_gradient = True
        self.parameter_names = ("linear_params",)
        if bias_params is not None:
            self.bias_params = bias_params
            self.parameter_names = ("linear_params", "bias_params")

    @property
    def has_bias(self) -> bool:
        return len(self.parameter_names) == 2
