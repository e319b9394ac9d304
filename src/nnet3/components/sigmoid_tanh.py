"""SigmoidComponent and TanhComponent: the squashing nonlinearities."""

from __future__ import annotations

import torch
from torch import Tensor

from nnet3.components.base import Properties
from nnet3.components.nonlinearity import REPAIR_PROBABILITY, Nonlinearity
from nnet3.components.registry import register


class _Squashing(Nonlinearity):
    """A nonlinearity whose derivative is a function of the output and vanishes where it saturates."""

    properties = (
        Properties.SIMPLE | Properties.PROPAGATE_IN_PLACE | Properties.BACKPROP_NEEDS_OUTPUT | Properties.STORES_STATS
    )

    def saturated(self, like: Tensor, to_update: Nonlinearity) -> Tensor | None:
        """Returns (dim,) 1 where a dimension is saturated on average, else 0; None if nothing is to be repaired now."""
        to_update.num_dims_processed += self.dim
        if not self.self_repair_happens():
            return None
        mask = self.deriv_sum < self.lower_threshold * self.count
        to_update.num_dims_self_repaired = to_update.num_dims_self_repaired + mask.sum()
        return mask.to(like.dtype)


@register
class SigmoidComponent(_Squashing):
    """y = 1 / (1 + exp(-x))."""

    def forward(self, x: Tensor, y: Tensor, indexes: None = None) -> None:
        torch.sigmoid(x, out=y)

    def differentiate(self, y: Tensor, y_deriv: Tensor, x_deriv: Tensor) -> None:
        # g_x = g_y y (1 - y)
        torch.ops.aten.sigmoid_backward.grad_input(y_deriv, y, grad_input=x_deriv)

    def self_repair(self, y: Tensor, x_deriv: Tensor, to_update: Nonlinearity) -> None:
        # g_x += (s/P) m (1 - 2 y), towards y = 1/2
        mask = self.saturated(x_deriv, to_update)
        if mask is not None:
            step = mask * (self.self_repair_scale / REPAIR_PROBABILITY)
            x_deriv.add_(step).addcmul_(y, step, value=-2)

    def store_stats(self, x: Tensor, y: Tensor, memo: None) -> None:
        if not self.skips_statistics():
            self.store_output_and_deriv(y, torch.addcmul(y, y, y, value=-1).sum(0))


@register
class TanhComponent(_Squashing):
    """y = tanh(x)."""

    default_lower_threshold = 0.2

    def forward(self, x: Tensor, y: Tensor, indexes: None = None) -> None:
        torch.tanh(x, out=y)

    def differentiate(self, y: Tensor, y_deriv: Tensor, x_deriv: Tensor) -> None:
        # g_x = g_y (1 - y^2)
        torch.ops.aten.tanh_backward.grad_input(y_deriv, y, grad_input=x_deriv)

    def self_repair(self, y: Tensor, x_deriv: Tensor, to_update: Nonlinearity) -> None:
        # g_x -= (s/P) m y, towards y = 0
        mask = self.saturated(x_deriv, to_update)
        if mask is not None:
            x_deriv.addcmul_(y, mask, value=-self.self_repair_scale / REPAIR_PROBABILITY)

    def store_stats(self, x: Tensor, y: Tensor, memo: None) -> None:
        if not self.skips_statistics():
            self.store_output_and_deriv(y, torch.addcmul(y.new_ones(()), y, y, value=-1).sum(0))
