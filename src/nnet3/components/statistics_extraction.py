"""StatisticsExtractionComponent: count, sum and sum of squares over blocks of time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nnet3.components.base import Component, Deriv, IndexArrays, Properties, Updated, load_fields
from nnet3.components.field_table import Field
from nnet3.components.fields import too_wide
from nnet3.components.kinds import BOOLEAN, SIZE, Values
from nnet3.components.registry import register
from nnet3.components.row_groups import RowGroups, row_groups, transposed_groups
from nnet3.index import T, find_rows


@dataclass(frozen=True)
class StatisticsIndexes:
    inputs_of_output: RowGroups
    outputs_of_input: RowGroups


class StatisticsComponent(Component):
    """A component each of whose outputs uses whatever there is of the inputs it wants, and at least one of them."""

    identity_indexes = False
    needs_indexes = True
    indexes_go_on = True

    @property
    def needs_all_inputs(self) -> bool:
        return False

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

    The sums are over those inputs there are at times P floor(t / P) + j input_period within the block of P =
    output_period times. At least one is required.
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

    def backward(
        self, x: Tensor, y: Tensor, y_deriv: Tensor, memo: Any, to_update: Updated, x_deriv: Deriv, indexes: Any = None
    ) -> None:
        """g_x = g_sum + 2 x g_sumsq of its output row; the count has no derivative"""
        if x_deriv is None:
            return
        derivs = indexes.outputs_of_input.sum(y_deriv[:, 1:])
        if self.include_variance:
            torch.addcmul(derivs[:, : self.input_dim], x, derivs[:, self.input_dim :], value=2.0, out=x_deriv)
        else:
            x_deriv.copy_(derivs)
