"""Pointwise nonlinearities: common parts (statistics, self-repair, form on disk), and each type."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor
from typing_extensions import Self

from nnet3.base.kaldi_io.reader import Reader
from nnet3.base.kaldi_io.writer import Writer
from nnet3.base.native import layers, operations
from nnet3.base.native.codes import Code
from nnet3.base.native.operations import Operations
from nnet3.base.text import ConfigLine
from nnet3.errors import ComponentError
from nnet3.model.components.base import Component, Deriv, Properties, Updated
from nnet3.model.components.component_types import register
from nnet3.model.components.field_table import (
    Field,
    Same,
    divisor_of,
    format_number,
    obsolete,
    summarize_vector,
    value_of,
)
from nnet3.model.components.random_source import RandomSource
from nnet3.model.components.row_sums import sum_of_rows
from nnet3.model.components.value_kinds import DOUBLE, REAL, SIZE, TALLY, Kind, Values, Vector

REPAIR_PROBABILITY = 0.5
_UNSET = -1000.0


#: Left out where it is the dimension.
BLOCK_DIM = Field(
    *("block_dim", SIZE),
    default=Same("dim"), check=divisor_of("dim"), optional=True, omitted=Same("dim"), hidden=Same("dim"),
)  # fmt: skip
_AVERAGE = Vector(value_of("dim"), statistic=True, may_be_empty=True)


class _Threshold(Kind):
    """A number, or None, written as -1000 in config lines and files."""

    def parse(self, line: ConfigLine, key: str, default: dict[str, Any]) -> float | None:
        value = line.number(key, _UNSET)
        return None if value == _UNSET else value

    def load(self, reader: Reader, what: str, values: Values) -> float | None:
        value = reader.real()
        return None if value == _UNSET else value

    def write(self, writer: Writer, value: Any) -> None:
        writer.real(value)


def old_statistics() -> tuple[Field, ...]:
    """Returns the fields in old files of types that were nonlinearities once."""
    vectors = Vector(statistic=True, may_be_empty=True)
    return (
        *obsolete(vectors, "<ValueAvg>", "<DerivAvg>"),
        *obsolete(REAL, "<Count>"),
        *obsolete(vectors, "<OderivRms>"),
        *obsolete(REAL, "<OderivCount>", "<NumDimsSelfRepaired>", "<NumDimsProcessed>"),
    )


def _statistics_info(component: Nonlinearity) -> str:
    text, count = "", component.count
    if count > 0 and component.value_sum.numel() == component.dim:
        processed = component.num_dims_processed
        repaired = float(component.num_dims_self_repaired) / processed if processed else 0.0
        text += f", count={format_number(count, 3)}, self-repaired-proportion={format_number(repaired)}"
        text += f", value-avg={summarize_vector((component.value_sum / count).cpu())}"
        if component.deriv_sum.numel() == component.dim:
            text += f", deriv-avg={summarize_vector((component.deriv_sum / count).cpu())}"
    if component.oderiv_count > 0:
        rms = (component.oderiv_sumsq / component.oderiv_count).clamp(min=0.0).sqrt()
        text += f", oderiv-rms={summarize_vector(rms.cpu())}"
        text += f", oderiv-count={format_number(component.oderiv_count)}"
    return text


class Nonlinearity(Component):
    """Base of the types that map each row to a row of the same dimension without parameters.

    Statistics (docs/formulas.md, statistics of nonlinearities), all of them sums: `value_sum` and `deriv_sum` (dim), or
    empty when never stored, of outputs and of derivatives in terms of the output, over `count` rows; `oderiv_sumsq`
    (dim), of squared output derivatives over `oderiv_count` rows; `num_dims_self_repaired` of `num_dims_processed`.
    What is added up on a device stays there, so that nothing waits for it.
    """

    statistic_names = (
        "value_sum",
        "deriv_sum",
        "count",
        "oderiv_sumsq",
        "oderiv_count",
        "num_dims_self_repaired",
        "num_dims_processed",
    )
    has_self_repair: ClassVar[bool] = True
    has_upper_threshold: ClassVar[bool] = False
    #: What native code calls the type, if it has the derivative.
    output_code: ClassVar[Code | None] = None
    default_lower_threshold: ClassVar[float] = 0.05
    default_upper_threshold: ClassVar[float] = 0.95

    fields = (
        Field("dim", SIZE),
        BLOCK_DIM,
        Field("value_sum", _AVERAGE, None, "<ValueAvg>", per="count"),
        Field("deriv_sum", _AVERAGE, None, "<DerivAvg>", per="count"),
        Field("count", DOUBLE, None),
        Field("oderiv_sumsq", _AVERAGE, None, "<OderivRms>", optional=True, per="oderiv_count", root=True),
        Field("oderiv_count", DOUBLE, None, optional="oderiv_sumsq"),
        Field("num_dims_self_repaired", TALLY, None, optional=True),
        Field("num_dims_processed", DOUBLE, None, optional=True),
        Field("self_repair_lower_threshold", _Threshold(), default=None, optional=True, omitted=None, hidden=None),
        Field("self_repair_upper_threshold", _Threshold(), default=None, optional=True, omitted=None, hidden=None),
        Field("self_repair_scale", REAL, default=0.0, optional=True, omitted=0.0, hidden=0.0),
    )
    heading = ("dim",)
    shown = (
        *("block_dim", "self_repair_lower_threshold", "self_repair_upper_threshold", "self_repair_scale"),
        _statistics_info,
    )

    def __init__(self, dim: int, block_dim: int | None = None):
        super().__init__()
        self.input_dim = self.output_dim = dim
        self.block_dim = dim if block_dim is None else block_dim
        self.self_repair_lower_threshold: float | None = None
        self.self_repair_upper_threshold: float | None = None
        self.self_repair_scale = 0.0
        self.value_sum = torch.zeros(0, dtype=torch.float64)
        self.deriv_sum = torch.zeros(0, dtype=torch.float64)
        self.count = 0.0
        self.oderiv_sumsq = torch.zeros(0, dtype=torch.float64)
        self.oderiv_count = 0.0
        self.num_dims_self_repaired = torch.zeros((), dtype=torch.float64)
        self.num_dims_processed = 0.0

    @classmethod
    def from_config(cls, line: ConfigLine, rng: RandomSource) -> Self:
        component = super().from_config(line, rng)
        complaint = component._complaint_about_self_repair()
        if complaint:
            raise line.error(*complaint)
        return component

    # ---- what the backward passes of all types do ----

    @property
    def backprop_is_linear(self) -> bool:
        return self.self_repair_scale == 0.0 or not self.has_self_repair

    def backward(
        self, x: Tensor, y: Tensor, y_deriv: Tensor, memo: Any, to_update: Updated, x_deriv: Deriv, indexes: Any = None
    ) -> None:
        repairs, squares = False, None
        if isinstance(to_update, Nonlinearity):
            # Numbers are drawn in Kaldi's order.
            repairs = x_deriv is not None and self.has_self_repair and self.self_repair_happens(to_update)
            if self.rng.integer(0, 3) != 0 or to_update.oderiv_count == 0:
                squares = y_deriv.new_zeros(self.dim, dtype=torch.float64)
                to_update.oderiv_count += y_deriv.shape[0]
        self._differentiate(y, y_deriv, x_deriv, squares)
        if isinstance(to_update, Nonlinearity):
            if squares is not None:
                to_update.oderiv_sumsq = add_to_sum(to_update.oderiv_sumsq, squares)
            if repairs and x_deriv is not None:
                self.self_repair(y, x_deriv, to_update)

    def _differentiate(self, y: Tensor, y_deriv: Tensor, x_deriv: Deriv, squares: Tensor | None) -> None:
        """Fills x_deriv, and adds the squares of y_deriv, over rows, to `squares`."""
        code = self.output_code
        if x_deriv is not None and code is not None and layers.output_backward(code, x_deriv, y, y_deriv, squares):
            return
        if squares is not None:  # before x_deriv, which may share the memory of y_deriv
            sums = layers.moments(y_deriv)
            squares += sum_of_rows(torch.square, y_deriv) if sums is None else sums[1]
        if x_deriv is not None:
            self.differentiate(y, y_deriv, x_deriv)

    @abc.abstractmethod
    def differentiate(self, y: Tensor, y_deriv: Tensor, x_deriv: Tensor) -> None:
        """Fills x_deriv from the output and its derivative."""

    def self_repair(self, y: Tensor, x_deriv: Tensor, to_update: Nonlinearity) -> None:
        """Pushes dimensions that are saturated on average back, by a small change of x_deriv.

        The formulas are in docs/formulas.md, self-repair. Called only if `self_repair_happens`.
        """

    def self_repair_happens(self, to_update: Nonlinearity) -> bool:
        """Decides whether to repair in this minibatch, at random if there is a reason to. Raises ComponentError."""
        if self.self_repair_scale == 0.0 or self.count == 0.0 or self.deriv_sum.numel() != self.dim:
            return False
        complaint = self._complaint_about_self_repair()
        if complaint:
            raise ComponentError(f"{self.type_name}: {complaint[0]}")
        return self.rng.uniform() <= REPAIR_PROBABILITY

    def _complaint_about_self_repair(self) -> tuple[str, str] | None:
        """Returns a message about wrong settings, and their config key; None for right ones."""
        if self.self_repair_scale == 0.0 or not self.has_self_repair:
            return None
        if not 0.0 < self.self_repair_scale < 0.1:
            shown = format_number(self.self_repair_scale)
            return f"'self-repair-scale' must be >= 0 and < 0.1, got {shown}", "self-repair-scale"
        if self.self_repair_upper_threshold is not None and not self.has_upper_threshold:
            return "'self-repair-upper-threshold' has no meaning for this type", "self-repair-upper-threshold"
        return None

    @property
    def lower_threshold(self) -> float:
        """The threshold in use: the one set, or the type's own."""
        value = self.self_repair_lower_threshold
        return self.default_lower_threshold if value is None else value

    @property
    def upper_threshold(self) -> float:
        value = self.self_repair_upper_threshold
        return self.default_upper_threshold if value is None else value

    def store_output_and_deriv(self, y: Tensor, derivative: Callable[[Tensor], Tensor]) -> None:
        """Adds the sums over rows of the output, and of its derivative, to the statistics.

        Leaves out every second minibatch on average, never the first. `derivative` is a function of outputs.
        """
        if self.rng.integer(0, 1) == 0 and self.count != 0.0:
            return
        sums = None if self.output_code is None else layers.output_sums(self.output_code, y)
        values, derivs = (y.sum(0), sum_of_rows(derivative, y)) if sums is None else sums
        self.value_sum = add_to_sum(self.value_sum, values)
        self.deriv_sum = add_to_sum(self.deriv_sum, derivs)
        self.count += y.shape[0]


def add_to_sum(total: Tensor, term: Tensor) -> Tensor:
    """Returns `total` plus `term`, in place, or float64 of `term` if nothing was ever stored."""
    return term.double() if total.numel() == 0 else total.add_(term)


class _Squashing(Nonlinearity):
    """A nonlinearity with a derivative that is a function of the output, and 0 where saturated."""

    repeats_forward = True
    properties = Properties.SIMPLE | Properties.IN_PLACE | Properties.BACKPROP_NEEDS_OUTPUT | Properties.STORES_STATS

    def self_repair_happens(self, to_update: Nonlinearity) -> bool:
        to_update.num_dims_processed += self.dim
        return super().self_repair_happens(to_update)

    def repair_saturated(
        self, y: Tensor, x_deriv: Tensor, to_update: Nonlinearity, offset: float, slope: float
    ) -> None:
        """Adds offset + slope y to the derivatives of dimensions that are saturated on average."""
        bound = self.lower_threshold * self.count
        number: Tensor | int | None = layers.repair(x_deriv, y, self.deriv_sum, bound, offset, slope)
        if number is None:
            mask = self.deriv_sum < bound
            number, mask = mask.sum(), mask.to(x_deriv.dtype)
            x_deriv.add_(mask, alpha=offset).addcmul_(y, mask, value=slope)
        to_update.num_dims_self_repaired = to_update.num_dims_self_repaired + number


@register
class SigmoidComponent(_Squashing):
    """y = 1 / (1 + exp(-x))."""

    largest_derivs = (0.25,)
    output_code = Code.SIGMOID

    def forward(self, x: Tensor, y: Tensor, indexes: None = None) -> None:
        torch.sigmoid(x, out=y)

    def native(self, x: Tensor, y: Tensor) -> Operations | None:
        return operations.sigmoid(y, x)

    def differentiate(self, y: Tensor, y_deriv: Tensor, x_deriv: Tensor) -> None:
        # g_x = g_y y (1 - y)
        torch.ops.aten.sigmoid_backward.grad_input(y_deriv, y, grad_input=x_deriv)

    def self_repair(self, y: Tensor, x_deriv: Tensor, to_update: Nonlinearity) -> None:
        # g_x += (s/P) m (1 - 2 y), towards y = 1/2
        step = self.self_repair_scale / REPAIR_PROBABILITY
        self.repair_saturated(y, x_deriv, to_update, step, -2.0 * step)

    def store_stats(self, x: Tensor, y: Tensor, memo: None) -> None:
        self.store_output_and_deriv(y, lambda rows: torch.addcmul(rows, rows, rows, value=-1))


@register
class TanhComponent(_Squashing):
    """y = tanh(x)."""

    largest_derivs = (1.0,)
    output_code = Code.TANH
    default_lower_threshold = 0.2

    def forward(self, x: Tensor, y: Tensor, indexes: None = None) -> None:
        torch.tanh(x, out=y)

    def native(self, x: Tensor, y: Tensor) -> Operations | None:
        return operations.tanh(y, x)

    def differentiate(self, y: Tensor, y_deriv: Tensor, x_deriv: Tensor) -> None:
        # g_x = g_y (1 - y^2)
        torch.ops.aten.tanh_backward.grad_input(y_deriv, y, grad_input=x_deriv)

    def self_repair(self, y: Tensor, x_deriv: Tensor, to_update: Nonlinearity) -> None:
        # g_x -= (s/P) m y, towards y = 0
        self.repair_saturated(y, x_deriv, to_update, 0.0, -self.self_repair_scale / REPAIR_PROBABILITY)

    def store_stats(self, x: Tensor, y: Tensor, memo: None) -> None:
        self.store_output_and_deriv(y, lambda rows: torch.addcmul(rows.new_ones(()), rows, rows, value=-1))


@register
class RectifiedLinearComponent(Nonlinearity):
    """y = max(x, 0); NaN stays NaN."""

    properties = Properties.SIMPLE | Properties.IN_PLACE | Properties.BACKPROP_NEEDS_OUTPUT | Properties.STORES_STATS
    backprop_needs_sign_only = repeats_forward = True
    has_upper_threshold = True
    output_code = Code.RELU

    def forward(self, x: Tensor, y: Tensor, indexes: None = None) -> None:
        torch.clamp_min(x, 0.0, out=y)

    def native(self, x: Tensor, y: Tensor) -> Operations | None:
        return operations.relu(y, x)

    def differentiate(self, y: Tensor, y_deriv: Tensor, x_deriv: Tensor) -> None:
        # g_x = g_y where y > 0, else 0
        torch.ops.aten.threshold_backward.grad_input(y_deriv, y, 0.0, grad_input=x_deriv)

    def self_repair(self, y: Tensor, x_deriv: Tensor, to_update: Nonlinearity) -> None:
        # g_x -= (s/P) q in every row: q is -1 for a unit (nearly) never active, +1 for one (nearly) always active
        blocks = self.dim // self.block_dim
        active = self.deriv_sum.view(blocks, self.block_dim).mean(0) / self.count
        too_active = (active > self.lower_threshold).double() + (active > self.upper_threshold) - 1.0  # (block_dim,)
        to_update.num_dims_processed += self.block_dim
        to_update.num_dims_self_repaired = to_update.num_dims_self_repaired + too_active.square().sum()
        x_deriv.sub_(too_active.to(x_deriv.dtype).repeat(blocks), alpha=self.self_repair_scale / REPAIR_PROBABILITY)

    def store_stats(self, x: Tensor, y: Tensor, memo: None) -> None:
        self.store_output_and_deriv(y, torch.sign)
