"""NoOpComponent: y = x, with a derivative that may be scaled."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from nnet3.components.base import Component, Deriv, Properties, Updated
from nnet3.components.field_table import Field
from nnet3.components.kinds import REAL, SIZE
from nnet3.components.nonlinearity import old_statistics
from nnet3.components.registry import register


@register
class NoOpComponent(Component):
    """y = x; the derivative is multiplied by backprop_scale."""

    properties = Properties.SIMPLE | Properties.IN_PLACE

    fields = (
        Field("dim", SIZE),
        Field("backprop_scale", REAL, default=1.0, optional=True, hidden=1.0),
        *old_statistics(),
    )
    heading = ("dim",)
    shown = ("backprop_scale",)

    def __init__(self, dim: int, backprop_scale: float = 1.0):
        super().__init__()
        self.input_dim = self.output_dim = dim
        self.backprop_scale = backprop_scale

    def forward(self, x: Tensor, y: Tensor, indexes: None = None) -> None:
        if y.data_ptr() != x.data_ptr():
            y.copy_(x)

    def backward(
        self, x: Tensor, y: Tensor, y_deriv: Tensor, memo: Any, to_update: Updated, x_deriv: Deriv, indexes: Any = None
    ) -> None:
        if x_deriv is None:
            return
        if self.backprop_scale != 1.0:
            torch.mul(y_deriv, self.backprop_scale, out=x_deriv)
        elif x_deriv.data_ptr() != y_deriv.data_ptr():
            x_deriv.copy_(y_deriv)
