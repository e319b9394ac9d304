"""GruNonlinearityComponent: what a GRU has besides its gates, and what OutputGru shares with it (components.md 10)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from nnet3.components.base import Component, Properties
from nnet3.components.fields import (
    read_integer,
    read_matrix,
    read_number,
    read_vector,
    write_matrix,
    write_vector,
)
from nnet3.components.natural_gradient import OnlineNaturalGradient
from nnet3.components.random_source import RandomSource
from nnet3.components.registry import register
from nnet3.components.summary import format_number, rms, summarize_vector
from nnet3.components.updatable import UpdatableComponent, UpdatableHeader

if TYPE_CHECKING:
    from typing_extensions import Self

    from nnet3.kaldi_io import Reader, Writer
    from nnet3.text import ConfigLine

_REPAIR_PROBABILITY = 0.5
_tanh_backward = torch.ops.aten.tanh_backward  # (g, t): g (1 - t^2)


class GruComponent(UpdatableComponent):
    """What both GRU types have: h = tanh(...), c = (1 - z) h + z c', and the statistics and self-repair of h.

    Statistics: value_sum (C,) of h, deriv_sum (C,) of 1 - h^2, count (rows) and self_repair_total. They are stored by
    about half of the calls of `backward`, in the component to update.
    """

    properties = (
        Properties.SIMPLE | Properties.UPDATABLE | Properties.BACKPROP_NEEDS_INPUT | Properties.BACKPROP_NEEDS_OUTPUT
    )
    statistic_names = ("value_sum", "deriv_sum", "self_repair_total", "count")

    def __init__(self, cell_dim: int) -> None:
        super().__init__()
        self.cell_dim = cell_dim
        self.output_dim = 2 * cell_dim
        self.value_sum = torch.zeros(cell_dim, dtype=torch.float64)
        self.deriv_sum = torch.zeros(cell_dim, dtype=torch.float64)
        self.self_repair_total = 0.0
        self.count = 0.0
        self.self_repair_threshold = 0.2
        self.self_repair_scale = 1e-5
        self.alpha = 4.0

    def configure_self_repair(self, line: ConfigLine) -> None:
        self.self_repair_threshold = line.number("self-repair-threshold", 0.2, minimum=0.0)
        self.self_repair_scale = line.number("self-repair-scale", 1e-5, minimum=0.0)
        self.alpha = line.number("alpha", 4.0, minimum=0.0)

    def read_statistics(self, reader: Reader) -> None:
        """From <ValueAvg> to <Alpha>."""
        reader.expect("<ValueAvg>")
        value_average = read_vector(reader, "<ValueAvg>", self.cell_dim).double()
        reader.expect("<DerivAvg>")
        deriv_average = read_vector(reader, "<DerivAvg>", self.cell_dim).double()
        reader.expect("<SelfRepairTotal>")
        self.self_repair_total = reader.real()
        reader.expect("<Count>")
        self.count = reader.real()
        self.value_sum = value_average * self.count
        self.deriv_sum = deriv_average * self.count
        reader.expect("<SelfRepairThreshold>")
        self.self_repair_threshold = reader.real()
        reader.expect("<SelfRepairScale>")
        self.self_repair_scale = reader.real()
        reader.expect("<Alpha>")
        self.alpha = read_number(reader, "<Alpha>")

    def write_statistics(self, writer: Writer) -> None:
        count = self.count or 1.0
        writer.token("<ValueAvg>")
        write_vector(writer, self.value_sum / count)
        writer.token("<DerivAvg>")
        write_vector(writer, self.deriv_sum / count)
        writer.token("<SelfRepairTotal>")
        writer.double(self.self_repair_total)
        writer.token("<Count>")
        writer.double(self.count)
        writer.token("<SelfRepairThreshold>")
        writer.real(self.self_repair_threshold)
        writer.token("<SelfRepairScale>")
        writer.real(self.self_repair_scale)
        writer.token("<Alpha>")
        writer.real(self.alpha)

    def statistics_info(self) -> str:
        text = f", self-repair-threshold={format_number(self.self_repair_threshold)}"
        text += f", self-repair-scale={format_number(self.self_repair_scale)}"
        if self.count > 0:
            text += f", count={format_number(self.count, 3)}"
            repaired = self.self_repair_total / (self.count * self.cell_dim)
            text += f", self-repaired-proportion={format_number(repaired)}"
            text += f", value-avg={summarize_vector((self.value_sum / self.count).cpu())}"
            text += f", deriv-avg={summarize_vector((self.deriv_sum / self.count).cpu())}"
        return f"{text}, alpha={format_number(self.alpha)}"

    def _activation_deriv(self, h: Tensor, z: Tensor, y_deriv: Tensor) -> Tensor:
        """The derivative of what the tanh is of: e = (dh + dc (1 - z)) (1 - h^2)."""
        dh, dc = y_deriv[:, : self.cell_dim], y_deriv[:, self.cell_dim :]
        return _tanh_backward((dh + dc).addcmul_(dc, z, value=-1.0), h)

    def _gate_and_cell_deriv(self, x: Tensor, h: Tensor, y_deriv: Tensor, x_deriv: Tensor, cell: slice) -> None:
        """dz = dc (c' - h), dc' = dc z; z is the first block of columns, c' is `cell`."""
        dim = self.cell_dim
        dc = y_deriv[:, dim:]
        dz = torch.sub(x[:, cell], h, out=x_deriv[:, :dim])
        dz.mul_(dc)
        torch.mul(dc, x[:, :dim], out=x_deriv[:, cell])

    def _store_and_repair(self, to_update: GruComponent, h: Tensor, e: Tensor) -> None:
        """Statistics of h into `to_update`, whose own sums decide which elements of e are repaired."""
        if self.rng.uniform() > _REPAIR_PROBABILITY:
            return
        to_update.count += h.shape[0]
        to_update.value_sum.add_(h.sum(0))
        to_update.deriv_sum.add_((1.0 - h.square()).sum(0))
        is_repaired = to_update.deriv_sum < to_update.self_repair_threshold * to_update.count
        to_update.self_repair_total += float(is_repaired.sum())
        scale = to_update.self_repair_scale / _REPAIR_PROBABILITY
        if scale:
            e.addcmul_(h, is_repaired.to(h), value=-scale)


@register
class GruNonlinearityComponent(GruComponent):
    """h = tanh(hpart + (r s') W^T), c = (1 - z) h + z c'; C = cell_dim, R = recurrent_dim.

    Input columns [z (C) | r (R) | hpart (C) | c' (C) | s' (R)], without the last block if R = C, where s' is c'; z and
    r are gates, after their sigmoid. Output [h | c]. Parameter: w_h (C, R), the matrix W.
    """

    type_name = "GruNonlinearityComponent"
    parameter_names = ("w_h",)
    preconditioner_names = ("preconditioner_in", "preconditioner_out")

    def __init__(self, w_h: Tensor) -> None:
        super().__init__(w_h.shape[0])
        self.w_h = w_h
        self.recurrent_dim = w_h.shape[1]
        is_projected = self.recurrent_dim != self.cell_dim
        self.input_dim = 3 * self.cell_dim + (2 if is_projected else 1) * self.recurrent_dim
        start = self.cell_dim + self.recurrent_dim
        self._hpart = slice(start, start + self.cell_dim)
        self._cell = slice(start + self.cell_dim, start + 2 * self.cell_dim)  # the columns of c'
        self.preconditioner_in = OnlineNaturalGradient()
        self.preconditioner_out = OnlineNaturalGradient()

    def set_natural_gradient(self, rank_in: int, rank_out: int, update_period: int) -> None:
        self.preconditioner_in = OnlineNaturalGradient(rank_in, update_period, alpha=self.alpha)
        self.preconditioner_out = OnlineNaturalGradient(rank_out, update_period, alpha=self.alpha)

    # ---- configuration and files ----

    @classmethod
    def from_config(cls, line: ConfigLine, rng: RandomSource) -> Self:
        cell_dim = line.integer("cell-dim", minimum=1)
        recurrent_dim = line.integer("recurrent-dim", -1, maximum=cell_dim)
        if recurrent_dim == 0 or recurrent_dim < -1:
            raise line.error(f"'recurrent-dim' must be from 1 to {cell_dim}, got {recurrent_dim}", "recurrent-dim")
        recurrent_dim = cell_dim if recurrent_dim < 0 else recurrent_dim
        stddev = line.number("param-stddev", 1.0 / math.sqrt(cell_dim), minimum=0.0)
        component = cls(rng.normal_tensor(cell_dim, recurrent_dim) * stddev)
        component.configure_self_repair(line)
        rank_in = line.integer("rank-in", 20, minimum=1)
        rank_out = line.integer("rank-out", 80, minimum=1)
        component.set_natural_gradient(rank_in, rank_out, line.integer("update-period", 4, minimum=1))
        component.configure_updatable(line)
        return component

    @classmethod
    def read(cls, reader: Reader) -> Self:
        header = UpdatableHeader.read(reader)
        reader.expect("<CellDim>")
        cell_dim = read_integer(reader, "<CellDim>")
        reader.expect("<RecurrentDim>")
        recurrent_dim = read_integer(reader, "<RecurrentDim>")
        if recurrent_dim > cell_dim:
            raise reader.error(f"<RecurrentDim> must be at most {cell_dim}, got {recurrent_dim}")
        reader.expect("<w_h>")
        component = cls(read_matrix(reader, "<w_h>", cell_dim, recurrent_dim))
        component.copy_header(header)
        component.read_statistics(reader)
        reader.expect("<RankInOut>")
        rank_in, rank_out = read_integer(reader, "rank-in"), read_integer(reader, "rank-out")
        reader.expect("<UpdatePeriod>")
        component.set_natural_gradient(rank_in, rank_out, read_integer(reader, "<UpdatePeriod>"))
        reader.expect("</GruNonlinearityComponent>")
        return component

    def write_body(self, writer: Writer) -> None:
        self.write_header(writer)
        writer.token("<CellDim>")
        writer.int32(self.cell_dim)
        writer.token("<RecurrentDim>")
        writer.int32(self.recurrent_dim)
        writer.token("<w_h>")
        write_matrix(writer, self.w_h)
        self.write_statistics(writer)
        writer.token("<RankInOut>")
        writer.int32(self.preconditioner_in.rank)
        writer.int32(self.preconditioner_out.rank)
        writer.token("<UpdatePeriod>")
        writer.int32(self.preconditioner_in.update_period)

    def info(self) -> str:
        text = f"{super().info()}, cell-dim={self.cell_dim}, recurrent-dim={self.recurrent_dim}{rms('w_h', self.w_h)}"
        text += f"{self.statistics_info()}, rank-in={self.preconditioner_in.rank}"
        return f"{text}, rank-out={self.preconditioner_out.rank}, update-period={self.preconditioner_in.update_period}"

    # ---- arithmetic ----

    def forward(self, x: Tensor, y: Tensor, indexes: None = None) -> None:
        dim, recurrent = self.cell_dim, self.recurrent_dim
        z, r, s = x[:, :dim], x[:, dim : dim + recurrent], x[:, -recurrent:]
        h = torch.addmm(x[:, self._hpart], r * s, self.w_h.t(), out=y[:, :dim])
        h.tanh_()
        torch.lerp(h, x[:, self._cell], z, out=y[:, dim:])

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
        """e = (dh + dc (1 - z)) (1 - h^2); dz = dc (c' - h); dhpart = e; dr = (e W) s'; ds' = (e W) r; dc' += dc z"""
        dim, recurrent = self.cell_dim, self.recurrent_dim
        r, s = x[:, dim : dim + recurrent], x[:, -recurrent:]
        h = y[:, :dim]
        e = self._activation_deriv(h, x[:, :dim], y_deriv)
        assert to_update is None or isinstance(to_update, GruNonlinearityComponent)
        if to_update is not None:
            self._store_and_repair(to_update, h, e)
        if x_deriv is not None:
            self._gate_and_cell_deriv(x, h, y_deriv, x_deriv, self._cell)
            x_deriv[:, self._hpart] = e
            q = e @ self.w_h
            torch.mul(q, s, out=x_deriv[:, dim : dim + recurrent])
            if recurrent == dim:  # s' is c', whose derivative is there already
                x_deriv[:, -recurrent:].addcmul_(q, r)
            else:
                torch.mul(q, r, out=x_deriv[:, -recurrent:])
        if to_update is not None:
            to_update._update(r * s, e)

    def _update(self, inputs: Tensor, e: Tensor) -> None:
        """W += lr e^T (r s'), both factors preconditioned unless this collects gradients."""
        if self.is_gradient:
            self.w_h.addmm_(e.t(), inputs, alpha=self.learning_rate)
            return
        inputs, scale_in = self.preconditioner_in.precondition(inputs)
        e, scale_out = self.preconditioner_out.precondition(e)
        change = e.t() @ inputs
        self.w_h.add_(change.mul_((scale_in * scale_out * self.learning_rate).to(change)))
