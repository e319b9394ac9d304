"""StatisticsPoolingComponent: means and deviations over a window of extracted statistics (components.md 13.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from nnet3.components.base import Component, Properties
from nnet3.components.fields import read_integer, read_number, too_wide
from nnet3.components.registry import register
from nnet3.components.statistics_extraction import StatisticsComponent
from nnet3.index import T

if TYPE_CHECKING:
    from typing_extensions import Self

    from nnet3.components.random_source import RandomSource
    from nnet3.kaldi_io import Reader, Writer
    from nnet3.text import ConfigLine

_FIELDS = (  # attribute, config key, token, least value
    ("input_dim", "input-dim", "<InputDim>", 1),
    ("input_period", "input-period", "<InputPeriod>", 1),
    ("left_context", "left-context", "<LeftContext>", 0),
    ("right_context", "right-context", "<RightContext>", 0),
    ("num_log_count_features", "num-log-count-features", "<NumLogCountFeatures>", 0),
)


@register
class StatisticsPoolingComponent(StatisticsComponent):
    """From rows [count | sums] to [log count, num_log_count_features times | sums / count], over the inputs there are
    at t - left_context, ..., t + right_context in steps of input_period, on which t must lie. At least one is required.

    With output_stddevs the second half of the sums is of squares and becomes sqrt(max(variance_floor, e2 - m^2)).
    """

    type_name = "StatisticsPoolingComponent"

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

    # ---- configuration and files ----

    @classmethod
    def from_config(cls, line: ConfigLine, rng: RandomSource) -> Self:
        defaults: dict[str, dict[str, Any]] = {"input-period": {"default": 1}, "num-log-count-features": {"default": 0}}
        sizes = [line.integer(key, **defaults.get(key, {}), minimum=minimum) for _, key, _, minimum in _FIELDS]
        output_stddevs = line.boolean("output-stddevs", False)
        floor = line.number("variance-floor", 1e-10, above=0.0, below=1.0)
        component = cls(output_stddevs, floor, *sizes)
        fault = component._fault()
        if fault:
            raise line.error(fault[1], fault[0])
        return component

    @classmethod
    def read(cls, reader: Reader) -> Self:
        sizes = []
        for _, _, token, minimum in _FIELDS:
            reader.expect(token)
            sizes.append(read_integer(reader, token, minimum))
        reader.expect("<OutputStddevs>")
        output_stddevs = reader.boolean()
        reader.expect("<VarianceFloor>")
        component = cls(output_stddevs, read_number(reader, "<VarianceFloor>", above=0.0), *sizes)
        fault = component._fault()
        if fault:
            raise reader.error(fault[1])
        reader.expect("</StatisticsPoolingComponent>")
        return component

    def _fault(self) -> tuple[str, str] | None:
        """A config key and what is wrong with its value, if anything is."""
        for key, context in (("left-context", self.left_context), ("right-context", self.right_context)):
            if context % self.input_period:
                return key, f"{key} must be a multiple of input-period ({self.input_period}), got {context}"
        if self.left_context + self.right_context == 0:
            return "left-context", "left-context and right-context must not both be 0"
        num_frames = self.left_context + self.right_context + 1
        wide = too_wide((num_frames - 1) // self.input_period + 1, num_frames)
        if wide:
            return "right-context", wide
        if self.output_stddevs and self.input_dim % 2 == 0:
            return "input-dim", f"with output-stddevs, input-dim - 1 must be even, got {self.input_dim - 1}"
        if self.output_dim == 0:
            return "input-dim", "without num-log-count-features, input-dim must be > 1"
        return None

    def write_body(self, writer: Writer) -> None:
        for name, _, token, _ in _FIELDS:
            writer.token(token)
            writer.int32(getattr(self, name))
        writer.token("<OutputStddevs>")
        writer.boolean(self.output_stddevs)
        writer.token("<VarianceFloor>")
        writer.real(self.variance_floor)

    # ---- index rules ----

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

    # ---- arithmetic ----

    def forward(self, x: Tensor, y: Tensor, indexes: Any = None) -> Tensor:
        """Fill y; the memo is the counts (output rows, 1)."""
        first = self.num_log_count_features
        sums = indexes.inputs_of_output.sum(x)
        count = sums[:, :1].clone()
        y[:, :first] = count.log()
        torch.div(sums[:, 1:], count, out=y[:, first:])
        if self.output_stddevs:
            mean, square = y[:, first:].chunk(2, dim=1)
            square.addcmul_(mean, mean, value=-1.0).clamp_(min=self.variance_floor).sqrt_()
        return count

    def backward(
        self,
        x: Tensor,
        y: Tensor,
        y_deriv: Tensor,
        memo: Tensor,
        to_update: Component | None,
        x_deriv: Tensor | None,
        indexes: Any = None,
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
