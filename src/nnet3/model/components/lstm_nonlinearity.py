"""LstmNonlinearityComponent: everything in an LSTM that is not an affine transform."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from nnet3.base.native import cells, operations
from nnet3.base.native.operations import Operations
from nnet3.base.text import ConfigLine
from nnet3.model.components.base import Deriv, Properties, UpdatableComponent, Updated
from nnet3.model.components.component_types import register
from nnet3.model.components.field_table import Field, format_number, rms, summarize_vector
from nnet3.model.components.natural_gradient import OnlineNaturalGradient
from nnet3.model.components.random_source import RandomSource
from nnet3.model.components.row_sums import blocks_of_rows, type_of_sums, whole_gradient
from nnet3.model.components.value_kinds import BOOLEAN, DOUBLE, MatrixKind, Vector

_TANH_THRESHOLD, _SIGMOID_THRESHOLD, _REPAIR_SCALE = 0.2, 0.05, 1e-5
_VALUE_NAMES = ("i_t_sigmoid", "f_t_sigmoid", "c_t_tanh", "o_t_sigmoid", "m_t_tanh")
_PEEPHOLE_NAMES = ("w_ic", "w_fc", "w_oc")
_IS_SIGMOID = (True, True, False, True, False)
_sigmoid_backward = torch.ops.aten.sigmoid_backward.grad_input  # (g, s): g s (1 - s)
_tanh_backward = torch.ops.aten.tanh_backward.grad_input  # (g, t): g (1 - t^2)


_VALUES = MatrixKind(lambda values: (5, values["params"].shape[1]), statistic=True)


def _values_info(component: LstmNonlinearityComponent) -> str:
    count, config = component.count, component.self_repair_config.tolist()
    text = "".join(rms(name, row) for name, row in zip(_PEEPHOLE_NAMES, component.params, strict=True))
    text += f", count={format_number(count, 3)}" if count > 0 else ""
    for k, name in enumerate(_VALUE_NAMES):
        text += f", {name}={{ self-repair-lower-threshold={format_number(config[k])}"
        text += f", self-repair-scale={format_number(config[k + 5])}"
        if count > 0:
            repaired = float(component.self_repair_total[k]) / component.num_values
            text += f", self-repaired-proportion={format_number(repaired)}"
            text += f", value-avg={summarize_vector((component.value_sum[k] / count).cpu())}"
            text += f", deriv-avg={summarize_vector((component.deriv_sum[k] / count).cpu())}"
        text += " }"
    return text


@register
class LstmNonlinearityComponent(UpdatableComponent):
    """Gates, cell and output of an LSTM from their affine parts; C = cell_dim.

    Input columns [I | F | Cp | O | c'] and, with use_dropout, three scales of gates, i_s, f_s and o_s; output [c | m].
    Parameter: params (3, C), the peephole weights w_ic, w_fc, w_oc.

    Statistics are of the five values i, f, tanh(Cp), o, tanh(c): value_sum (5, C), deriv_sum (5, C), count (rows) and
    self_repair_total (5,). They are stored by `backward`, in the component to update.
    """

    largest_derivs = (0.25, 0.25, 1.0, 0.25, 1.0)
    counts_backward = True

    properties = Properties.SIMPLE | Properties.UPDATABLE | Properties.BACKPROP_NEEDS_INPUT
    parameter_names = ("params",)
    preconditioner_names = ("preconditioner",)
    constant_names = ("_repair_thresholds", "_repair_scales", "_repair_centers")
    statistic_names = ("value_sum", "deriv_sum", "self_repair_total", "count")

    fields = (
        Field("params", MatrixKind(lambda values: (3, None)), None),
        Field("value_sum", _VALUES, None, "<ValueAvg>", per="count"),
        Field("deriv_sum", _VALUES, None, "<DerivAvg>", per="count"),
        Field("self_repair_config", Vector(lambda values: 10), None),
        Field(
            "self_repair_total", Vector(lambda values: 5, statistic=True), None, "<SelfRepairProb>", per="num_values"
        ),
        Field("use_dropout", BOOLEAN, default=False, optional=True, omitted=False),
        Field("count", DOUBLE, None),
    )
    shown = ("cell_dim", "use_dropout", _values_info)

    def __init__(self, params: Tensor, self_repair_config: Tensor, use_dropout: bool = False) -> None:
        super().__init__()
        self.params = params
        self.cell_dim = params.shape[1]
        self.use_dropout = use_dropout
        self.input_dim = 5 * self.cell_dim + 3 * use_dropout
        self.output_dim = 2 * self.cell_dim
        self._widths = (2 * self.cell_dim, *(3 * [self.cell_dim]), *([2, 1] * use_dropout))
        self.self_repair_config = self_repair_config  # (10,): five thresholds, five scales
        # the repair term of a value v is scale (v - center): (2v - 1) r for a sigmoid, v r for tanh
        self._repair_thresholds = self_repair_config[:5].clone().unsqueeze(1)
        self._repair_scales = (self_repair_config[5:] * (1 + torch.tensor(_IS_SIGMOID).float())).unsqueeze(1)
        self._repair_centers = torch.tensor(_IS_SIGMOID).float().mul_(0.5).unsqueeze(1)
        self.value_sum = torch.zeros(5, self.cell_dim, dtype=torch.float64)
        self.deriv_sum = torch.zeros(5, self.cell_dim, dtype=torch.float64)
        self.self_repair_total = torch.zeros(5, dtype=torch.float64)
        self.count = 0.0
        self.preconditioner = OnlineNaturalGradient(rank=20, update_period=2, num_samples_history=1000.0)

    @classmethod
    def initial_values(cls, line: ConfigLine, rng: RandomSource) -> dict[str, Any]:
        cell_dim = line.integer("cell-dim", minimum=1)
        stddev = line.number("param-stddev", 1.0, minimum=0.0)
        tanh = line.number("tanh-self-repair-threshold", _TANH_THRESHOLD, minimum=0.0, maximum=1.0)
        sigmoid = line.number("sigmoid-self-repair-threshold", _SIGMOID_THRESHOLD, minimum=0.0, maximum=0.25)
        scale = line.number("self-repair-scale", _REPAIR_SCALE, minimum=0.0, maximum=0.1)
        config = torch.tensor((sigmoid, sigmoid, tanh, sigmoid, tanh, *(5 * (scale,))))
        return {"params": rng.normal_tensor(3, cell_dim) * stddev, "self_repair_config": config}

    @property
    def num_values(self) -> float:
        """The number of values seen so far, for each of the five."""
        return self.count * self.cell_dim

    @property
    def backprop_is_linear(self) -> bool:
        return not any(self.self_repair_config[5:].tolist())

    def forward(self, x: Tensor, y: Tensor, indexes: None = None) -> None:
        """i = sigma(I + w_ic c'); f = sigma(F + w_fc c'); c = f_s f c' + i_s i tanh(Cp);
        o = sigma(O + w_oc c); m = o_s o tanh(c)"""
        if cells.lstm(y, x, self.params, self.use_dropout):
            return
        dim = self.cell_dim
        # A step of a recurrence has few rows: there each view takes as long as a product of its elements.
        gates_in, candidate, o_in, previous, *scales = x.split_with_sizes(self._widths, 1)
        c, m = y.split_with_sizes((dim, dim), 1)
        w_if, w_o = self.params.split_with_sizes((2, 1))
        gates = torch.addcmul(gates_in.view(-1, 2, dim), previous.unsqueeze(1), w_if).sigmoid_()  # (rows, 2, dim): i, f
        if self.use_dropout:
            gates.mul_(scales[0].unsqueeze(2))
        i, f = gates.unbind(1)
        torch.mul(f, previous, out=c)
        c.addcmul_(i, candidate.tanh())
        o = torch.addcmul(o_in, w_o, c).sigmoid_()
        if self.use_dropout:
            o.mul_(scales[1])
        torch.tanh(c, out=m)
        m.mul_(o)

    def native(self, x: Tensor, y: Tensor) -> Operations | None:
        return operations.lstm(y, x, self.params, self.use_dropout)

    def backward(
        self, x: Tensor, y: Tensor, y_deriv: Tensor, memo: Any, to_update: Updated, x_deriv: Deriv, indexes: Any = None
    ) -> None:
        """r_k: self-repair terms of the values i, f, tanh(Cp), o and tanh(c); `_in`: the input of a sigmoid.

        do_in = o (1 - o) o_s tanh(c) dm - (2o - 1) r_3
        dc    = (1 - tanh(c)^2) o_s o dm + dc_out + do_in w_oc - tanh(c) r_4
        di_in = dc i_s tanh(Cp) i (1 - i) - (2i - 1) r_0
        df_in = dc f_s c' f (1 - f) - (2f - 1) r_1
        dCp   = (1 - tanh(Cp)^2) i_s i dc - tanh(Cp) r_2
        dc'   = w_ic di_in + w_fc df_in + f_s f dc
        """
        if to_update is None and x_deriv is None:
            return
        repair = self._self_repair()
        sums = None if to_update is None else x.new_zeros(13, self.cell_dim, dtype=type_of_sums(x))
        if not cells.lstm_backward(x, y_deriv, x_deriv, self.params, self.use_dropout, repair, sums):
            derivs = () if x_deriv is None else (x_deriv,)
            for rows, rows_deriv, *deriv in blocks_of_rows(x, y_deriv, *derivs):
                self._backward_rows(rows, rows_deriv, deriv[0] if deriv else None, repair, sums)
        if sums is not None:
            assert isinstance(to_update, LstmNonlinearityComponent)
            to_update._store_backward_stats(sums[:5].double(), sums[5:10].double(), len(x), self._is_repaired())
            to_update._update(sums[10:].to(x.dtype))

    def _backward_rows(
        self,
        x: Tensor,
        y_deriv: Tensor,
        x_deriv: Deriv,
        repair: Tensor | None,
        sums: Tensor | None,
    ) -> None:
        """Fills the derivative of some rows.

        Adds to `sums` (13, C), over rows, the five values, their squares, and the derivatives of the peepholes:
        dw_ic = sum c' di_in; dw_fc = sum c' df_in; dw_oc = sum c do_in.
        """
        dim = self.cell_dim
        previous = x[:, 4 * dim : 5 * dim]
        values, scaled_forget, c = self._values(x)
        i, f, candidate, o, tanh_c = values.unbind(1)
        i_s, f_s, o_s = x[:, 5 * dim :].split(1, dim=1) if self.use_dropout else (None, None, None)

        deriv = values.new_empty(values.shape) if x_deriv is None else x_deriv[:, : 5 * dim].unflatten(1, (5, dim))
        di, df, d_candidate, do, d_previous = deriv.unbind(1)
        dm = _scaled(y_deriv[:, dim:], o_s)
        _sigmoid_backward(tanh_c * dm, o, grad_input=do)
        if repair is not None:
            do.addcmul_(o, repair[3], value=-1).add_(repair[8])
        dc = o * dm
        _tanh_backward(dc, tanh_c, grad_input=dc).add_(y_deriv[:, :dim]).addcmul_(do, self.params[2])
        if repair is not None:
            dc.addcmul_(tanh_c, repair[4], value=-1)
        dc_i = _scaled(dc, i_s)
        _sigmoid_backward(dc_i * candidate, i, grad_input=di)
        _sigmoid_backward(_scaled(dc, f_s) * previous, f, grad_input=df)
        _tanh_backward(dc_i * i, candidate, grad_input=d_candidate)
        if repair is not None:
            deriv[:, :3].addcmul_(values[:, :3], repair[:3], value=-1)
            deriv[:, :2].add_(repair[5:7])
        if x_deriv is not None:
            torch.mul(scaled_forget, dc, out=d_previous)
            d_previous.addcmul_(di, self.params[0]).addcmul_(df, self.params[1])
            if self.use_dropout:
                x_deriv[:, 5 * dim :] = 0.0
        if sums is not None:
            sums[:5] += values.sum(0, dtype=sums.dtype)
            sums[5:10] += values.square_().sum(0, dtype=sums.dtype)
            sums[10:12] += (deriv[:, :2] * previous.unsqueeze(1)).sum(0, dtype=sums.dtype)
            sums[12] += (do * c).sum(0, dtype=sums.dtype)

    def _values(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Returns (rows, 5, C): i, f, tanh(Cp), o, tanh(c); f_s f (rows, C); c (rows, C)."""
        dim = self.cell_dim
        parts = x[:, : 5 * dim].unflatten(1, (5, dim))
        previous = parts[:, 4]
        values = x.new_empty(x.shape[0], 5, dim)
        torch.addcmul(parts[:, :2], previous.unsqueeze(1), self.params[:2], out=values[:, :2]).sigmoid_()
        torch.tanh(parts[:, 2], out=values[:, 2])
        i, f = values[:, 0], values[:, 1]
        if self.use_dropout:
            i, f = i * x[:, 5 * dim : 5 * dim + 1], f * x[:, 5 * dim + 1 : 5 * dim + 2]
        c = torch.addcmul(f * previous, i, values[:, 2])
        torch.addcmul(parts[:, 3], self.params[2], c, out=values[:, 3]).sigmoid_()
        torch.tanh(c, out=values[:, 4])
        return values, f, c

    # ---- self-repair, statistics and update ----

    def _is_repaired(self) -> Tensor:
        """Returns (5, C): where the average derivative of a value is below its threshold."""
        return self.deriv_sum / (1.0 + self.count) < self._repair_thresholds.double()  # the count may be negative

    def _self_repair(self) -> Tensor | None:
        """Returns factors, then offsets, (10, C): factor v - offset, subtracted, is (2v - 1) r_k or v r_k for tanh."""
        repair = cells.lstm_repair(self.deriv_sum, 1.0 + self.count, self.self_repair_config)
        if repair is not None or not any(self.self_repair_config[5:]):
            return repair
        factors = torch.where(self._is_repaired(), self._repair_scales, 0.0)
        return torch.cat([factors, factors * self._repair_centers])

    def _store_backward_stats(self, values: Tensor, squares: Tensor, rows: int, is_repaired: Tensor) -> None:
        """Adds sums of the values and of their squares, (5, C) each, over `rows` rows."""
        self.count += rows
        self.value_sum.add_(values)
        for k, is_sigmoid in enumerate(_IS_SIGMOID):
            self.deriv_sum[k].add_((values[k] if is_sigmoid else rows) - squares[k])
        self.self_repair_total.add_(is_repaired.sum(1), alpha=rows)

    def _update(self, params_deriv: Tensor) -> None:
        if self.is_gradient:
            self.params.add_(params_deriv, alpha=self.learning_rate)
            return
        with whole_gradient(params_deriv) as share:
            params_deriv, scale = self.preconditioner.precondition(params_deriv)
        self.params.add_(params_deriv, alpha=scale * share * self.learning_rate)


def _scaled(matrix: Tensor, scale: Tensor | None) -> Tensor:
    return matrix if scale is None else matrix * scale
