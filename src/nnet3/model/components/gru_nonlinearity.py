"""GruNonlinearityComponent and OutputGruNonlinearityComponent: the parts of GRUs besides the gates."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
from torch import Tensor

from nnet3.base.native import cells, operations
from nnet3.base.native.operations import Operations
from nnet3.base.text import ConfigLine
from nnet3.model.components.base import Deriv, Properties, UpdatableComponent, Updated
from nnet3.model.components.component_types import register
from nnet3.model.components.field_table import Field, Summary, format_number, rms, summarize_vector, value_of
from nnet3.model.components.natural_gradient import OnlineNaturalGradient
from nnet3.model.components.per_element import initial_vector
from nnet3.model.components.random_source import RandomSource
from nnet3.model.components.updatable import ALPHA, RANK, UPDATE_PERIOD, OnePreconditioner, TwoPreconditioners
from nnet3.model.components.value_kinds import DOUBLE, INTEGER, RATE, SIZE, MatrixKind, Values, Vector

_REPAIR_PROBABILITY = 0.5
_tanh_backward = torch.ops.aten.tanh_backward  # (g, t): g (1 - t^2)


class GruComponent(UpdatableComponent):
    """h = tanh(...), c = (1 - z) h + z c', with statistics and self-repair of h, as both GRU types have it.

    Statistics: value_sum (C,) of h, deriv_sum (C,) of 1 - h^2, count (rows) and self_repair_total. They are stored by
    about half of the calls of `backward`, in the component to update.
    """

    largest_derivs = (1.0,)
    learns_last = counts_backward = True

    properties = (
        Properties.SIMPLE | Properties.UPDATABLE | Properties.BACKPROP_NEEDS_INPUT | Properties.BACKPROP_NEEDS_OUTPUT
    )
    statistic_names = ("value_sum", "deriv_sum", "self_repair_total", "count")

    alpha: Any  # a Setting
    #: From the parameter to the settings of natural gradient.
    statistics_fields: ClassVar[tuple[Field, ...]] = (
        Field("value_sum", Vector(value_of("cell_dim"), statistic=True), None, "<ValueAvg>", per="count"),
        Field("deriv_sum", Vector(value_of("cell_dim"), statistic=True), None, "<DerivAvg>", per="count"),
        Field("self_repair_total", DOUBLE, None),
        Field("count", DOUBLE, None),
        Field("self_repair_threshold", RATE, default=0.2),
        Field("self_repair_scale", RATE, default=1e-5),
        ALPHA,
    )

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

    def _activation_deriv(self, h: Tensor, z: Tensor, y_deriv: Tensor) -> Tensor:
        """Returns the derivative of what the tanh is of: e = (dh + dc (1 - z)) (1 - h^2)."""
        dh, dc = y_deriv[:, : self.cell_dim], y_deriv[:, self.cell_dim :]
        return _tanh_backward((dh + dc).addcmul_(dc, z, value=-1.0), h)

    def _gate_and_cell_deriv(self, x: Tensor, h: Tensor, y_deriv: Tensor, x_deriv: Tensor, cell: slice) -> None:
        """dz = dc (c' - h), dc' = dc z; z is the first block of columns, c' is `cell`."""
        dim = self.cell_dim
        dc = y_deriv[:, dim:]
        dz = torch.sub(x[:, cell], h, out=x_deriv[:, :dim])
        dz.mul_(dc)
        torch.mul(dc, x[:, :dim], out=x_deriv[:, cell])

    @property
    def backprop_is_linear(self) -> bool:
        return self.self_repair_scale == 0.0

    def _store_and_repair(self, to_update: GruComponent, h: Tensor, e: Tensor) -> None:
        """Adds statistics of h to `to_update`, and repairs the elements of e that its sums find saturated."""
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


def statistics_info(component: GruComponent) -> str:
    """Returns the part of the info line about self-repair, statistics and alpha."""
    text = f", self-repair-threshold={format_number(component.self_repair_threshold)}"
    text += f", self-repair-scale={format_number(component.self_repair_scale)}"
    count = component.count
    if count > 0:
        text += f", count={format_number(count, 3)}"
        repaired = component.self_repair_total / (count * component.cell_dim)
        text += f", self-repaired-proportion={format_number(repaired)}"
        text += f", value-avg={summarize_vector((component.value_sum / count).cpu())}"
        text += f", deriv-avg={summarize_vector((component.deriv_sum / count).cpu())}"
    return f"{text}, alpha={format_number(component.alpha)}"


def _fault_of_recurrent_dim(dim: int, values: Values) -> str:
    most = values["cell_dim"]
    return "" if 0 < dim <= most else f"must be from 1 to {most}, got {dim}"


@register
class GruNonlinearityComponent(TwoPreconditioners, GruComponent):
    """h = tanh(hpart + (r s') W^T), c = (1 - z) h + z c'; C = cell_dim, R = recurrent_dim.

    Input columns [z (C) | r (R) | hpart (C) | c' (C) | s' (R)], without the last block if R = C, where s' is c'; z and
    r are gates, after their sigmoid. Output [h | c]. Parameter: w_h (C, R), the matrix W.
    """

    parameter_names = ("w_h",)

    fields = (
        Field("cell_dim", SIZE),
        Field("recurrent_dim", INTEGER, check=_fault_of_recurrent_dim),
        Field("w_h", MatrixKind(lambda values: (values["cell_dim"], values["recurrent_dim"])), None, "<w_h>"),
        *GruComponent.statistics_fields,
        Field("rank_in", SIZE, default=20, token="<RankInOut>"),
        Field("rank_out", SIZE, default=80, token=""),
        Field("update_period", SIZE, default=4),
    )
    shown = (
        *("cell_dim", "recurrent_dim", Summary(rms, "w_h", "w_h"), statistics_info),
        *("rank_in", "rank_out", "update_period"),
    )

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

    @classmethod
    def initial_values(cls, line: ConfigLine, rng: RandomSource) -> dict[str, Any]:
        cell_dim = line.integer("cell-dim", minimum=1)
        recurrent_dim = line.integer("recurrent-dim", -1)
        recurrent_dim = cell_dim if recurrent_dim == -1 else recurrent_dim
        fault = _fault_of_recurrent_dim(recurrent_dim, {"cell_dim": cell_dim})
        if fault:
            raise line.error(f"'recurrent-dim' {fault}", "recurrent-dim")
        stddev = line.number("param-stddev", 1.0 / math.sqrt(cell_dim), minimum=0.0)
        w_h = rng.normal_tensor(cell_dim, recurrent_dim) * stddev
        return {"cell_dim": cell_dim, "recurrent_dim": recurrent_dim, "w_h": w_h}

    def forward(self, x: Tensor, y: Tensor, indexes: None = None) -> None:
        dim, recurrent = self.cell_dim, self.recurrent_dim
        z, r, s = x[:, :dim], x[:, dim : dim + recurrent], x[:, -recurrent:]
        h = torch.addmm(x[:, self._hpart], r * s, self.w_h.t(), out=y[:, :dim])
        h.tanh_()
        torch.lerp(h, x[:, self._cell], z, out=y[:, dim:])

    def native(self, x: Tensor, y: Tensor) -> Operations | None:
        dim, recurrent = self.cell_dim, self.recurrent_dim
        h, c, gated = y[:, :dim], y[:, dim:], y[:, dim : dim + recurrent]  # r s' lies where c comes later
        return operations.in_a_row(
            operations.multiply(gated, x[:, dim : dim + recurrent], x[:, -recurrent:]),
            operations.product(h, gated, self.w_h, x[:, self._hpart]),
            operations.gru(h, h, None, x[:, self._cell], x[:, :dim], c),
        )

    def backward(
        self, x: Tensor, y: Tensor, y_deriv: Tensor, memo: Any, to_update: Updated, x_deriv: Deriv, indexes: Any = None
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
        self.w_h.addmm_(e.t(), inputs, alpha=scale_in * scale_out * self.learning_rate)


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
        if cells.output_gru(y, x, self.w_h):
            return
        dim = self.cell_dim
        z, hpart, cell = x[:, :dim], x[:, dim : 2 * dim], x[:, 2 * dim :]
        h = torch.addcmul(hpart, cell, self.w_h, out=y[:, :dim])
        h.tanh_()
        torch.lerp(h, cell, z, out=y[:, dim:])

    def native(self, x: Tensor, y: Tensor) -> Operations | None:
        dim = self.cell_dim
        z, hpart, cell = x[:, :dim], x[:, dim : 2 * dim], x[:, 2 * dim :]
        return operations.gru(y[:, :dim], hpart, self.w_h, cell, z, y[:, dim:])

    def backward(
        self, x: Tensor, y: Tensor, y_deriv: Tensor, memo: Any, to_update: Updated, x_deriv: Deriv, indexes: Any = None
    ) -> None:
        """e = (dh + dc (1 - z)) (1 - h^2); dz = dc (c' - h); dhpart = e; dc' = dc z + e w"""
        dim = self.cell_dim
        h = y[:, :dim]
        if to_update is None:
            if x_deriv is None:
                return
            if cells.output_gru_backward(x, h, y_deriv, x_deriv, self.w_h):
                return
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
        self.w_h.add_(frame_derivs.sum(0), alpha=scale * self.learning_rate)
