"""OutputGruNonlinearityComponent: a GRU without reset gate and with a diagonal recurrence (components.md 10.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from nnet3.components.base import Component
from nnet3.components.fields import read_integer, read_vector, write_vector
from nnet3.components.gru_nonlinearity import GruComponent
from nnet3.components.natural_gradient import OnlineNaturalGradient
from nnet3.components.random_source import RandomSource
from nnet3.components.registry import register
from nnet3.components.summary import rms
from nnet3.components.updatable import UpdatableHeader

if TYPE_CHECKING:
    from typing_extensions import Self

    from nnet3.kaldi_io import Reader, Writer
    from nnet3.text import ConfigLine


@register
class OutputGruNonlinearityComponent(GruComponent):
    """h = tanh(hpart + w c'), c = (1 - z) h + z c'; input columns [z | hpart | c'], output [h | c], C columns each.

    Parameter: w_h (C,), the vector w.
    """

    type_name = "OutputGruNonlinearityComponent"
    parameter_names = ("w_h",)
    preconditioner_names = ("preconditioner",)

    def __init__(self, w_h: Tensor) -> None:
        super().__init__(w_h.shape[0])
        self.w_h = w_h
        self.input_dim = 3 * self.cell_dim
        self.preconditioner = OnlineNaturalGradient()

    def set_natural_gradient(self, rank: int, update_period: int) -> None:
        self.preconditioner = OnlineNaturalGradient(rank, update_period, alpha=self.alpha)

    # ---- configuration and files ----

    @classmethod
    def from_config(cls, line: ConfigLine, rng: RandomSource) -> Self:
        cell_dim = line.integer("cell-dim", minimum=1)
        mean = line.number("param-mean", 0.0)
        stddev = line.number("param-stddev", 1.0, minimum=0.0)
        component = cls(rng.normal_tensor(cell_dim) * stddev + mean)
        component.configure_self_repair(line)
        rank = line.integer("rank", 8, minimum=1)
        component.set_natural_gradient(rank, line.integer("update-period", 10, minimum=1))
        component.configure_updatable(line)
        return component

    @classmethod
    def read(cls, reader: Reader) -> Self:
        header = UpdatableHeader.read(reader)
        reader.expect("<CellDim>")
        cell_dim = read_integer(reader, "<CellDim>")
        reader.expect("<w_h>")
        component = cls(read_vector(reader, "<w_h>", cell_dim))
        component.copy_header(header)
        component.read_statistics(reader)
        reader.expect("<Rank>")
        rank = read_integer(reader, "<Rank>")
        reader.expect("<UpdatePeriod>")
        component.set_natural_gradient(rank, read_integer(reader, "<UpdatePeriod>"))
        reader.expect("</OutputGruNonlinearityComponent>")
        return component

    def write_body(self, writer: Writer) -> None:
        self.write_header(writer)
        writer.token("<CellDim>")
        writer.int32(self.cell_dim)
        writer.token("<w_h>")
        write_vector(writer, self.w_h)
        self.write_statistics(writer)
        writer.token("<Rank>")
        writer.int32(self.preconditioner.rank)
        writer.token("<UpdatePeriod>")
        writer.int32(self.preconditioner.update_period)

    def info(self) -> str:
        text = f"{super().info()}, cell-dim={self.cell_dim}{rms('w_h', self.w_h)}{self.statistics_info()}"
        return f"{text}, rank={self.preconditioner.rank}, update-period={self.preconditioner.update_period}"

    # ---- arithmetic ----

    def forward(self, x: Tensor, y: Tensor, indexes: None = None) -> None:
        dim = self.cell_dim
        z, hpart, cell = x[:, :dim], x[:, dim : 2 * dim], x[:, 2 * dim :]
        h = torch.addcmul(hpart, cell, self.w_h, out=y[:, :dim])
        h.tanh_()
        torch.lerp(h, cell, z, out=y[:, dim:])

    def backward(
        self,
        x: Tensor,
        y: Tensor,
        y_deriv: Tensor,
        memo: None,
        to_update: Component | None,
        x_deriv: Tensor | None,
        indexes: None = None,
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
