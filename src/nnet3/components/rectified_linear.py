"""RectifiedLinearComponent: max(x, 0)."""

from __future__ import annotations

import torch
from torch import Tensor

from nnet3.components.base import Properties
from nnet3.components.nonlinearity import REPAIR_PROBABILITY, Nonlinearity
from nnet3.components.registry import register


@register
class RectifiedLinearComponent(Nonlinearity):
    """y = max(x, 0); NaN stays NaN."""

    properties = (
        Properties.SIMPLE | Properties.PROPAGATE_IN_PLACE | Properties.BACKPROP_NEEDS_OUTPUT | Properties.STORES_STATS
    )
    backprop_needs_sign_only = True
    has_upper_threshold = True

    def forward(self, x: Tensor, y: Tensor, indexes: None = None) -> None:
        torch.clamp_min(x, 0.0, out=y)

    def differentiate(self, y: Tensor, y_deriv: Tensor, x_deriv: Tensor) -> None:
        # g_x = g_y where y > 0, else 0
        torch.ops.aten.threshold_backward.grad_input(y_deriv, y, 0.0, grad_input=x_deriv)

    def self_repair(self, y: Tensor, x_deriv: Tensor, to_update: Nonlinearity) -> None:
        # g_x -= (s/P) q in every row: q is -1 for a unit (nearly) never active, +1 for one (nearly) always active
        if not self.self_repair_happens():
            return
        blocks = self.dim // self.block_dim
        active = self.deriv_sum.view(blocks, self.block_dim).mean(0) / self.count
        too_active = (active > self.lower_threshold).double() + (active > self.upper_threshold) - 1.0  # (block_dim,)
        to_update.num_dims_processed += self.block_dim
        to_update.num_dims_self_repaired = to_update.num_dims_self_repaired + too_active.square().sum()
        x_deriv.sub_(too_active.to(x_deriv.dtype).repeat(blocks), alpha=self.self_repair_scale / REPAIR_PROBABILITY)

    def store_stats(self, x: Tensor, y: Tensor, memo: None) -> None:
        if not self.skips_statistics():
            self.store_output_and_deriv(y, y.sign().sum(0))
