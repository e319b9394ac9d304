"""TdnnComponent: an affine transform of the input at several time offsets."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from nnet3.base.kaldi_io.reader import Reader
from nnet3.base.text import ConfigLine
from nnet3.model.components.base import Component, Deriv, Properties, Updated
from nnet3.model.components.component_types import register
from nnet3.model.components.field_table import ALWAYS, Field, Summary, length_of, mean_stddev, rms, row_and_column_norms
from nnet3.model.components.large_products import add_product
from nnet3.model.components.low_precision import low_precision
from nnet3.model.components.random_source import RandomSource
from nnet3.model.components.row_matrix import RowMatrix, SplicedMatrix
from nnet3.model.components.time_blocks import TimeBlocks
from nnet3.model.components.time_offsets import ReadsTimeOffsets
from nnet3.model.components.updatable import (
    ALPHA,
    NUM_SAMPLES_HISTORY,
    ORTHONORMAL,
    RANKS_IN_ONE,
    OrthonormalComponent,
    TwoPreconditioners,
    natural_gradient_info,
    preconditioners,
)
from nnet3.model.components.value_kinds import BOOLEAN, MATRIX, NUMBER, IntegersKind, Values, Vector, too_wide


class _Alphas(Field):
    """The two alphas; old files have one value for both."""

    def read(self, reader: Reader, values: dict[str, Any]) -> None:
        token = reader.expect("<AlphaInOut>", "<Alpha>")
        values["alpha_in"] = self.kind.load(reader, token, values)
        if token == "<Alpha>":
            values["alpha_out"] = values["alpha_in"]


def _fault_of_offsets(offsets: tuple[int, ...], values: Values) -> str:
    if not offsets or len(set(offsets)) < len(offsets):
        return f"must be different integers, at least one, got {list(offsets)}"
    wide = too_wide(len(offsets), 2 * max(map(abs, offsets)) + 1)
    return f": {wide}" if wide else ""


def _fault_of_columns(linear: Tensor, values: Values) -> str:
    rows, columns = linear.shape
    num_offsets = len(values["time_offsets"])
    return (
        f"has size {rows} x {columns}, which does not fit {num_offsets} time offsets" if columns % num_offsets else ""
    )


def _bias_info(component: TdnnComponent) -> str:
    return mean_stddev("bias", component.bias_params) if component.has_bias else ", has-bias=false"


@register
class TdnnComponent(ReadsTimeOffsets, TwoPreconditioners, OrthonormalComponent):
    """y(t) = b + sum_i W_i x(t + o_i), for the same n and x; all those inputs are required.

    Parameters: linear_params (output_dim, offsets * input_dim), the W_i side by side; bias_params (output_dim,), with
    no elements if there is no bias.
    """

    properties = Properties.UPDATABLE | ReadsTimeOffsets.properties | Properties.BACKPROP_NEEDS_INPUT
    parameter_names = ("linear_params", "bias_params")

    fields = (
        Field("time_offsets", IntegersKind(), check=_fault_of_offsets),
        Field("linear_params", MATRIX, None, check=_fault_of_columns),
        Field("bias_params", Vector(length_of("linear_params"), may_be_empty=True), None),
        replace(ORTHONORMAL, omitted=ALWAYS),
        Field("use_natural_gradient", BOOLEAN, default=True),
        NUM_SAMPLES_HISTORY,
        _Alphas("alpha_in", NUMBER, default=4.0, token="<AlphaInOut>"),
        replace(ALPHA, name="alpha_out", token=""),
        *RANKS_IN_ONE,
    )
    shown = (
        "orthonormal_constraint",
        "time_offsets",
        Summary(rms, "linear_params"),
        Summary(row_and_column_norms, "linear_params"),
        _bias_info,
        natural_gradient_info("rank_in", "rank_out", "num_samples_history", "update_period", "alpha_in", "alpha_out"),
    )

    def __init__(self, time_offsets: tuple[int, ...], linear_params: Tensor, bias_params: Tensor) -> None:
        super().__init__()
        self.time_offsets = time_offsets
        self.linear_params = linear_params
        self.bias_params = bias_params
        self.output_dim = linear_params.shape[0]
        self.input_dim = linear_params.shape[1] // len(time_offsets)
        self.use_natural_gradient = True
        self.preconditioner_in, self.preconditioner_out = preconditioners(linear_params.shape[1], self.output_dim)

    @property
    def has_bias(self) -> bool:
        return self.bias_params.numel() > 0

    @classmethod
    def initial_values(cls, line: ConfigLine, rng: RandomSource) -> dict[str, Any]:
        num_offsets = len(line.integers("time-offsets", separators=",")) or 1  # looked at more closely later
        input_dim = line.integer("input-dim", minimum=1)
        output_dim = line.integer("output-dim", minimum=1)
        stddev = line.number("param-stddev", -1.0)
        if stddev < 0:
            stddev = 1.0 / math.sqrt(input_dim * num_offsets)
        bias_stddev = line.number("bias-stddev", 1.0, minimum=0.0)
        bias_mean = line.number("bias-mean", 0.0)
        linear = rng.normal_tensor(output_dim, num_offsets * input_dim) * stddev
        bias_dim = output_dim if line.boolean("use-bias", True) else 0
        bias = rng.normal_tensor(bias_dim) * bias_stddev + bias_mean
        return {"linear_params": linear, "bias_params": bias}

    def in_low_precision(self, products: torch.dtype) -> Component | None:
        return low_precision(products, self.linear_params, self.bias_params, self.time_offsets)

    def _part(self, offset: int) -> slice:
        """Returns the columns of linear_params that belong to a time offset."""
        return slice(offset * self.input_dim, (offset + 1) * self.input_dim)

    def forward(self, x: Tensor, y: Tensor, indexes: Any = None) -> None:
        x = indexes.input_without_padding(x)
        first = indexes.blocks[0]
        addend: Tensor | None = self.bias_params if self.has_bias else None
        if not first.is_whole:
            y.copy_(self.bias_params) if self.has_bias else y.zero_()
            addend = y
        for block in indexes.blocks:
            target, weights = block.of_output(y), self.linear_params[:, self._part(block.offset)]
            add_product(target, block.of_input(x), weights.t(), target if addend is y else addend)
            addend = y

    def backward(
        self, x: Tensor, y: Tensor, y_deriv: Tensor, memo: Any, to_update: Updated, x_deriv: Deriv, indexes: Any = None
    ) -> None:
        """g_x(t + o_i) += g_y(t) W_i for all i"""
        y_deriv = indexes.output_without_padding(y_deriv)
        if x_deriv is not None:
            self._backward_data(y_deriv, x_deriv, indexes)
        if to_update is not None:
            assert isinstance(to_update, TdnnComponent)
            to_update._update(indexes.input_without_padding(x), y_deriv, indexes)

    def _backward_data(self, y_deriv: Tensor, x_deriv: Tensor, indexes: TimeBlocks) -> None:
        indexes.clear_uncovered(x_deriv)
        for number, block in enumerate(indexes.blocks):
            target, weights = block.of_input(x_deriv), self.linear_params[:, self._part(block.offset)]
            add_product(target, block.of_output(y_deriv), weights, None if number < indexes.num_fresh else target)

    def _update(self, x: Tensor, y_deriv: Tensor, indexes: TimeBlocks) -> None:
        if self.learning_rate == 0.0:
            return
        if self.is_gradient or not self.use_natural_gradient:
            self._update_simple(x, y_deriv, indexes)
        else:
            self._update_natural_gradient(x, y_deriv, indexes)

    def _update_simple(self, x: Tensor, y_deriv: Tensor, indexes: TimeBlocks) -> None:
        """W_i += lr sum_t g(t)^T x(t + o_i), b += lr sum_t g(t)"""
        for block in indexes.blocks:
            part = self.linear_params[:, self._part(block.offset)]
            add_product(part, block.of_output(y_deriv).t(), block.of_input(x), part, self.learning_rate)
        if self.has_bias:
            self.bias_params.add_(y_deriv.sum(0), alpha=self.learning_rate)

    def _update_natural_gradient(self, x: Tensor, y_deriv: Tensor, indexes: TimeBlocks) -> None:
        """[W b] += lr s1 s2 G'^T X', with the rows of X = [x(t + o_0) ... x(t + o_K-1) 1] and of G preconditioned."""
        spliced: RowMatrix = SplicedMatrix(x, indexes, len(self.time_offsets), len(y_deriv))
        if spliced.shape[1] <= self.output_dim:
            spliced = RowMatrix(spliced.dense())  # costs little and makes fewer, larger products
        self.learn(self.linear_params, self.bias_params if self.has_bias else None, spliced, y_deriv)
