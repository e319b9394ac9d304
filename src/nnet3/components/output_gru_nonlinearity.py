"""OutputGruNonlinearityComponent: a GRU without reset gate and with a diagonal recurrence."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from nnet3.components.base import Deriv, Updated
from nnet3.components.field_table import Field, Summary, value_of
from nnet3.components.gru_nonlinearity import GruComponent, statistics_info
from nnet3.components.kinds import SIZE, Vector
from nnet3.components.natural_gradient import OnlineNaturalGradient
from nnet3.components.natural_gradient_settings import RANK, UPDATE_PERIOD, OnePreconditioner
from nnet3.components.per_element_scale import initial_vector
from nnet3.components.random_source import RandomSource
from nnet3.components.registry import register
from nnet3.components.summary import rms
from nnet3.text import ConfigLine


@register
class OutputGruNonlinearityComponent(OnePreconditioner, GruComponent):
    """h = tanh(hpart + w c'), c = (1 - z) h + z c'; input columns [z | hpart | c'], output [h | c], C columns each.

    Parameter: w_h (C,), the vector w.
    """

    parameter_names = ("w_h",)

    fields = (
        Field("cell_dim", SIZE),
        Field("w_h", Vector(value_of("cell_dim")), None, "<w_h>"),
        *GruComponent.statistics_fields,
        RANK,
        UPDATE_PERIOD,
    )
    shown = ("cell_dim", Summary(rms, "w_h", "w_h"), statistics_info, "rank", "update_period")

    def __init__(self, w_h: Tensor) -> None:
        super().__init__(w_h.shape[0])
        self.w_h = w_h
        self.input_dim = 3 * self.cell_dim
        self.preconditioner = OnlineNaturalGradient()

    @classmethod
    def initial_values(cls, line: ConfigLine, rng: RandomSource) -> dict[str, Any]:
        cell_dim = line.integer("cell-dim", minimum=1)
        return {"cell_dim": cell_dim, "w_h": initial_vector(line, rng, cell_dim, 0.0, stddev=1.0)}

    def forward(self, x: Tensor, y: Tensor, indexes: None = None) -> None:
        dim = self.cell_dim
        z, hpart, cell = x[:, :dim], x[:, dim : 2 * dim], x[:, 2 * dim :]
        h = torch.addcmul(hpart, cell, self.w_h, out=y[:, :dim])
        h.tanh_()
        torch.lerp(h, cell, z, out=y[:, dim:])

    def backward(
        self, x: Tensor, y: Tensor, y_deriv: Tensor, memo: Any, to_update: Updated, x_deriv: Deriv, indexes: Any = None
    ) -> None:
        """e = (dh + dc (1 - z)) (1 - h^2); dz = dc (c' - h); dhpart = e; dc' = dc z + e w"""
        dim = self.cell_dim
        h = y[:, :dim]
        e = self._activation_deriv(h, x[:, :dim], y_deriv)
        assert to_update is None or isinstance(to_update, OutputGruNonlinearityComponent)
        if to_update is not None:
            self._store_and_repair(to_update, h, e)
        if x_deriv is not None:
            self._gate_and_cell_deriv(x, h, y_deriv, x_deriv, slice(2 * dim, 3 * dim))
            x_deriv[:, dim : 2 * dim] = e
            x_deriv[:, 2 * dim :].addcmul_(e, self.w_h)
        if to_update is not None:
            to_update._update(x[:, 2 * dim :] * e)

    def _update(self, frame_derivs: Tensor) -> None:
        """w += lr sum of the per-frame derivatives c' e, preconditioned unless this collects gradients."""
        if self.is_gradient:
            self.w_h.add_(frame_derivs.sum(0), alpha=self.learning_rate)
            return
        frame_derivs, scale = self.preconditioner.precondition(frame_derivs)
        change = frame_derivs.sum(0)
        self.w_h.add_(change.mul_((scale * self.learning_rate).to(change)))
