"""StatisticsExtractionComponent and StatisticsPoolingComponent: counts, means and deviations over windows of time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from nnet3.base.index import T, find_rows
from nnet3.base.text.values import between
from nnet3.model.components.base import Component, Properties
from nnet3.model.components.component_types import register
from nnet3.model.components.field_table import Field
from nnet3.model.components.index_arrays import IndexArrays, load_fields
from nnet3.model.components.value_kinds import BOOLEAN, COUNT, SIZE, NumberKind, Values, too_wide


@dataclass(frozen=True)
class RowGroups:
    """Group g holds rows `rows[starts[g] : starts[g] + sizes[g]]` of another matrix."""

    rows: Tensor  # (members,) int64
    starts: Tensor  # (groups,)
    sizes: Tensor  # (groups,)
    one_each: bool  # whether each group has one row

    def sum(self, matrix: Tensor) -> Tensor:
        """Returns the sum of each group's rows, (groups, columns); zero for an empty group."""
        if self.one_each:
            return matrix.index_select(0, self.rows)
        if matrix.numel() == 0:
            return matrix.new_zeros(len(self.starts), matrix.shape[1])
        return embedding_bag(self.rows, matrix.contiguous(), self.starts, mode="sum")


def row_groups(rows: np.ndarray) -> IndexArrays:
    """Returns the fields of RowGroups for a table (groups, slots) of row numbers; -1 stands for no row."""
    is_member = rows >= 0
    return _groups(rows[is_member], is_member.sum(axis=1))


def transposed_groups(rows: np.ndarray, num_rows: int) -> IndexArrays:
    """Returns the fields of RowGroups for the transposed table: the groups of each of `num_rows` rows."""
    element = np.flatnonzero(rows >= 0)
    member = rows.reshape(-1)[element]
    group = element // rows.shape[1]
    return _groups(group[_stable_order(member, num_rows)], np.bincount(member, minlength=num_rows))


def _stable_order(numbers: np.ndarray, limit: int) -> np.ndarray:
    """Returns the order that sorts numbers in [0, limit), stably."""
    return np.argsort(numbers.astype(np.uint16) if limit <= 2**16 else numbers, kind="stable")  # 16 bits: radix sort


def _groups(rows: np.ndarray, sizes: np.ndarray) -> IndexArrays:
    return {"rows": rows, "starts": np.cumsum(sizes) - sizes, "sizes": sizes, "one_each": np.array((sizes == 1).all())}


@dataclass(frozen=True)
class StatisticsIndexes:
    inputs_of_output: RowGroups
    outputs_of_input: RowGroups


class StatisticsComponent(Component):
    """A component whose outputs use all existing inputs among the wanted ones; at least one must exist."""

    identity_indexes = False
    needs_indexes = True
    indexes_go_on = True
    needs_all_inputs = False

    def computable(self, outputs: np.ndarray, available: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.any(available, axis=1), available

    def precompute_indexes(self, inputs: np.ndarray, outputs: np.ndarray, *, need_backprop: bool) -> IndexArrays:
        wanted = self.wanted_inputs(outputs)
        rows = find_rows(inputs, wanted.reshape(-1, 3)).reshape(wanted.shape[:2])
        groups = {"inputs_of_output": row_groups(rows), "outputs_of_input": transposed_groups(rows, len(inputs))}
        return {f"{name}.{field}": array for name, fields in groups.items() for field, array in fields.items()}

    def load_indexes(self, arrays: Mapping[str, np.ndarray], device: torch.device | str) -> StatisticsIndexes:
        fields = load_fields(arrays, device)
        names = ("rows", "starts", "sizes", "one_each")
        first, second = (
            RowGroups(*(fields[f"{groups}.{name}"] for name in names))
            for groups in ("inputs_of_output", "outputs_of_input")
        )
        return StatisticsIndexes(first, second)


def _fault_of_period(output_period: int, values: Values) -> str:
    input_period = values["input_period"]
    if output_period % input_period:
        return f"must be a multiple of input-period ({input_period}), got {output_period}"
    wide = too_wide(output_period // input_period, output_period)
    return f": {wide}" if wide else ""


@register
class StatisticsExtractionComponent(StatisticsComponent):
    """Output [count | sum x | sum x^2], the last one only with include_variance.

    Sums are over the existing inputs at times P floor(t / P) + j input_period, within a block of P = output_period
    times. At least one input must exist.
    """

    fields = (
        Field("input_dim", SIZE),
        Field("input_period", SIZE, default=1),
        Field("output_period", SIZE, default=1, check=_fault_of_period),
        Field("include_variance", BOOLEAN, token="<IncludeVarinance>", default=True),  # so misspelt by Kaldi
    )

    def __init__(self, input_dim: int, input_period: int, output_period: int, include_variance: bool) -> None:
        super().__init__()
        self.input_dim = input_dim
        self.input_period = input_period
        self.output_period = output_period
        self.include_variance = include_variance
        self.output_dim = 1 + input_dim * (2 if include_variance else 1)
        self.properties = Properties.BACKPROP_NEEDS_INPUT if include_variance else Properties.NONE

    @property
    def rules_period(self) -> int:
        return self.output_period

    def wanted_inputs(self, outputs: np.ndarray) -> np.ndarray:
        steps = np.arange(0, self.output_period, self.input_period, dtype=np.int32)
        wanted = np.repeat(outputs[:, np.newaxis], len(steps), axis=1)
        wanted[:, :, T] -= wanted[:, :, T] % self.output_period
        wanted[:, :, T] += steps
        return wanted

    def forward(self, x: Tensor, y: Tensor, indexes: Any = None) -> None:
        dim, groups = self.input_dim, indexes.inputs_of_output
        y[:, 0] = groups.sizes
        y[:, 1 : dim + 1] = groups.sum(x)
        if self.include_variance:
            y[:, dim + 1 :] = groups.sum(x.square())

    def fill_deriv(self, x: Tensor, y: Tensor, y_deriv: Tensor, memo: Any, x_deriv: Tensor, indexes: Any) -> None:
        """g_x = g_sum + 2 x g_sumsq of its output row; the count has no derivative"""
        derivs = indexes.outputs_of_input.sum(y_deriv[:, 1:])
        if self.include_variance:
            torch.addcmul(derivs[:, : self.input_dim], x, derivs[:, self.input_dim :], value=2.0, out=x_deriv)
        else:
            x_deriv.copy_(derivs)


def _fault_of_context(context: int, values: Values) -> str:
    period, left = values["input_period"], values["left_context"]
    if context % period:
        return f"must be a multiple of input-period ({period}), got {context}"
    if "right_context" not in values:
        return ""
    if left + context == 0:
        return "must not be 0 if left-context is"
    wide = too_wide((left + context) // period + 1, left + context + 1)
    return f": {wide}" if wide else ""


def _fault_of_output(num_log_count_features: int, values: Values) -> str:
    return "must not be 0 if input-dim is 1" if num_log_count_features + values["input_dim"] == 1 else ""


def _fault_of_stddevs(output_stddevs: bool, values: Values) -> str:
    num_sums = values["input_dim"] - 1
    return f"needs an even input-dim - 1, got {num_sums}" if output_stddevs and num_sums % 2 else ""


@register
class StatisticsPoolingComponent(StatisticsComponent):
    """Turns rows [count | sums] into [log count, num_log_count_features times | sums / count].

    Sums are over the existing inputs at t - left_context, ..., t + right_context in steps of input_period; t must be a
    multiple of it. At least one input must exist.

    With output_stddevs the second half of the sums is of squares and becomes sqrt(max(variance_floor, e2 - m^2)).
    """

    fields = (
        Field("input_dim", SIZE),
        Field("input_period", SIZE, default=1),
        Field("left_context", COUNT, check=_fault_of_context),
        Field("right_context", COUNT, check=_fault_of_context),
        Field("num_log_count_features", COUNT, default=0, check=_fault_of_output),
        Field("output_stddevs", BOOLEAN, default=False, check=_fault_of_stddevs),
        Field("variance_floor", NumberKind(between(0, 1)), default=1e-10),
    )

    def __init__(
        self,
        output_stddevs: bool,
        variance_floor: float,
        input_dim: int,
        input_period: int,
        left_context: int,
        right_context: int,
        num_log_count_features: int,
    ) -> None:
        super().__init__()
        self.input_dim = input_dim
        self.input_period = input_period
        self.left_context = left_context
        self.right_context = right_context
        self.num_log_count_features = num_log_count_features
        self.output_stddevs = output_stddevs
        self.variance_floor = variance_floor
        self.output_dim = num_log_count_features + input_dim - 1
        self.properties = Properties.USES_MEMO
        if output_stddevs:
            self.properties |= Properties.BACKPROP_NEEDS_OUTPUT

    @property
    def rules_period(self) -> int:
        return self.input_period

    def wanted_inputs(self, outputs: np.ndarray) -> np.ndarray:
        steps = np.arange(-self.left_context, self.right_context + 1, self.input_period, dtype=np.int32)
        wanted = np.repeat(outputs[:, np.newaxis], len(steps), axis=1)
        wanted[:, :, T] += steps
        return wanted

    def computable(self, outputs: np.ndarray, available: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.any(available, axis=1) & (outputs[:, T] % self.input_period == 0), available

    def forward(self, x: Tensor, y: Tensor, indexes: Any = None) -> Tensor:
        """Fills y; the memo is the counts (output rows, 1)."""
        first = self.num_log_count_features
        sums = indexes.inputs_of_output.sum(x)
        count = sums[:, :1].clone()
        y[:, :first] = count.log()
        torch.div(sums[:, 1:], count, out=y[:, first:])
        if self.output_stddevs:
            mean, square = y[:, first:].chunk(2, dim=1)
            square.sub_(mean.square()).clamp_(min=self.variance_floor).sqrt_()
        return count

    def fill_deriv(self, x: Tensor, y: Tensor, y_deriv: Tensor, memo: Any, x_deriv: Tensor, indexes: Any) -> None:
        """g_v = g / count, added to each input used; with standard deviations first g_e2 = g_sd / (2 sd) and
        g_m -= 2 m g_e2, as if there were no floor. Counts get no derivative, and give none."""
        first = self.num_log_count_features
        derivs = y_deriv[:, first:]
        if self.output_stddevs:
            mean, stddev = y[:, first:].chunk(2, dim=1)
            of_mean, of_stddev = derivs.chunk(2, dim=1)
            of_square = (of_stddev / stddev).mul_(0.5)
            derivs = torch.cat([torch.addcmul(of_mean, mean, of_square, value=-2.0), of_square], dim=1)
        x_deriv[:, 0] = 0.0
        x_deriv[:, 1:] = indexes.outputs_of_input.sum(derivs / memo)
