"""Softmax and log-softmax of rows."""

from __future__ import annotations

import torch
from torch import Tensor

from nnet3.model.components.base import Properties
from nnet3.model.components.component_types import register
from nnet3.model.components.nonlinearity import Nonlinearity, add_to_sum

_FLOOR = 1e-20


@register
class SoftmaxComponent(Nonlinearity):
    """y = softmax(x) of each row, floored at 1e-20: the logarithm is finite."""

    properties = Properties.SIMPLE | Properties.IN_PLACE | Properties.BACKPROP_NEEDS_OUTPUT | Properties.STORES_STATS
    has_self_repair = False

    def forward(self, x: Tensor, y: Tensor, indexes: None = None) -> None:
        torch.softmax(x, 1, out=y)
        y.clamp_min_(_FLOOR)

    def differentiate(self, y: Tensor, y_deriv: Tensor, x_deriv: Tensor) -> None:
        # g_x = y (g_y - y . g_y)
        kernel = torch.ops.aten._softmax_backward_data
        if x_deriv.is_contiguous():
            kernel.out(y_deriv, y, 1, y.dtype, grad_input=x_deriv)
        else:  # the kernel writes contiguous rows only
            x_deriv.copy_(kernel(y_deriv, y, 1, y.dtype))

    def store_stats(self, x: Tensor, y: Tensor, memo: None) -> None:
        self.value_sum = add_to_sum(self.value_sum, y.sum(0))
        self.count += y.shape[0]


@register
class LogSoftmaxComponent(Nonlinearity):
    """y = log softmax(x) of each row."""

    properties = Properties.SIMPLE | Properties.BACKPROP_NEEDS_OUTPUT | Properties.STORES_STATS
    has_self_repair = False

    def forward(self, x: Tensor, y: Tensor, indexes: None = None) -> None:
        torch.log_softmax(x, 1, out=y)

    def differentiate(self, y: Tensor, y_deriv: Tensor, x_deriv: Tensor) -> None:
        # g_x = g_y - exp(y) sum_j g_y,j
        kernel = torch.ops.aten._log_softmax_backward_data
        if x_deriv.is_contiguous():
            kernel.out(y_deriv, y, 1, y.dtype, out=x_deriv)
        else:  # the kernel writes contiguous rows only
            x_deriv.copy_(kernel(y_deriv, y, 1, y.dtype))
