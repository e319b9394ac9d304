"""StatisticsPoolingComponent: means and deviations over a window of extracted statistics."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from nnet3.components.base import Deriv, Properties, Updated
from nnet3.components.field_table import Field
from nnet3.components.fields import too_wide
from nnet3.components.kinds import BOOLEAN, COUNT, SIZE, NumberKind, Values
from nnet3.components.registry import register
from nnet3.components.statistics_extraction import StatisticsComponent
from nnet3.index import T
from nnet3.text.values import between


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

    They are over the inputs there are at t - left_context, ..., t + right_context in steps of input_period, on which
    t must lie. At least one is required.

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

    @property
    def needs_all_inputs(self) -> bool:
        return False

    def computable(self, outputs: np.ndarray, available: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.any(available, axis=1) & (outputs[:, T] % self.input_period == 0), available

    def forward(self, x: Tensor, y: Tensor, indexes: Any = None) -> Tensor:
        """Fill y; the memo is the counts (output rows, 1)."""
        first = self.num_log_count_features
        sums = indexes.inputs_of_output.sum(x)
        count = sums[:, :1].clone()
        y[:, :first] = count.log()
        torch.div(sums[:, 1:], count, out=y[:, first:])
        if self.output_stddevs:
            mean, square = y[:, first:].chunk(2, dim=1)
            square.sub_(mean.square()).clamp_(min=self.variance_floor).sqrt_()
        return count

    def backward(
        self, x: Tensor, y: Tensor, y_deriv: Tensor, memo: Any, to_update: Updated, x_deriv: Deriv, indexes: Any = None
    ) -> None:
        """g_v = g / count, added to each input used; with standard deviations first g_e2 = g_sd / (2 sd) and
        g_m -= 2 m g_e2, as if there were no floor. Counts get no derivative, and give none."""
        if x_deriv is None:
            return
        first = self.num_log_count_features
        derivs = y_deriv[:, first:]
        if self.output_stddevs:
            mean, stddev = y[:, first:].chunk(2, dim=1)
            of_mean, of_stddev = derivs.chunk(2, dim=1)
            of_square = (of_stddev / stddev).mul_(0.5)
            derivs = torch.cat([torch.addcmul(of_mean, mean, of_square, value=-2.0), of_square], dim=1)
        x_deriv[:, 0] = 0.0
        x_deriv[:, 1:] = indexes.outputs_of_input.sum(derivs / memo)
