"""Types that copy the input and change the derivative: NoOp, ClipGradient, BackpropTruncation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nnet3.base.kaldi_io.reader import Reader
from nnet3.base.kaldi_io.writer import Writer
from nnet3.base.native import cells, operations
from nnet3.base.native.operations import Operations
from nnet3.model.components.base import Component, Deriv, Properties, Updated
from nnet3.model.components.component_types import register
from nnet3.model.components.field_table import Field, show
from nnet3.model.components.index_arrays import IndexArrays, on_device
from nnet3.model.components.nonlinearity import old_statistics
from nnet3.model.components.value_kinds import (
    BOOLEAN,
    COUNT,
    DOUBLE,
    NUMBER,
    POSITIVE,
    RATE,
    REAL,
    SIZE,
    TALLY,
    Tally,
    Values,
)


def _copy(source: Tensor, dest: Tensor) -> None:
    """Copies a matrix, unless source and destination are one memory."""
    if dest.data_ptr() != source.data_ptr():
        dest.copy_(source)


@register
class NoOpComponent(Component):
    """y = x; the derivative is multiplied by backprop_scale."""

    is_linear = True
    properties = Properties.SIMPLE | Properties.IN_PLACE
    repeats_forward = True

    fields = (
        Field("dim", SIZE),
        Field("backprop_scale", REAL, default=1.0, optional=True, hidden=1.0),
        *old_statistics(),
    )
    heading = ("dim",)
    shown = ("backprop_scale",)

    def __init__(self, dim: int, backprop_scale: float = 1.0):
        super().__init__()
        self.input_dim = self.output_dim = dim
        self.backprop_scale = backprop_scale

    def forward(self, x: Tensor, y: Tensor, indexes: None = None) -> None:
        _copy(x, y)

    def native(self, x: Tensor, y: Tensor) -> Operations | None:
        return operations.copy(y, x)

    def fill_deriv(self, x: Tensor, y: Tensor, y_deriv: Tensor, memo: Any, x_deriv: Tensor, indexes: Any) -> None:
        if self.backprop_scale != 1.0:
            torch.mul(y_deriv, self.backprop_scale, out=x_deriv)
        else:
            _copy(y_deriv, x_deriv)


_REPAIR_PROBABILITY = 0.5
_INT32_MAX = 2**31 - 1


@dataclass(frozen=True)
class _Rounded(Tally):
    """A number of elements, as an int32."""

    is_tensor: bool = False

    def load(self, reader: Reader, what: str, values: Values) -> Any:
        count = float(COUNT.load(reader, what, values))
        return torch.tensor(count, dtype=torch.float64) if self.is_tensor else count

    def write(self, writer: Writer, value: Any) -> None:
        writer.int32(min(round(float(value)), _INT32_MAX))


def _self_repair_info(component: ClipGradientComponent) -> str:
    names = ("self_repair_clipped_proportion_threshold", "self_repair_target", "self_repair_scale")
    return show(component, (), names) if component.self_repair_scale != 0.0 else ""


@register
class ClipGradientComponent(Component):
    """y = x; derivatives are clipped by their row's norm or element by element, and blocked altogether by threshold 0.

    Statistics of norm-based clipping: `num_clipped` of `count` rows; `num_self_repaired` and `num_backpropped`
    count minibatches, and neither scaling nor adding of components changes those two.
    """

    is_linear, backprop_is_linear, counts_backward = True, False, True
    properties = Properties.SIMPLE | Properties.IN_PLACE | Properties.BACKPROP_NEEDS_INPUT
    statistic_names = ("count", "num_clipped", "num_self_repaired", "num_backpropped")
    counter_names = frozenset({"num_self_repaired", "num_backpropped"})

    fields = (
        Field("dim", SIZE),
        Field("clipping_threshold", NUMBER, default=15.0),
        Field("norm_based_clipping", BOOLEAN, default=False),
        Field("self_repair_clipped_proportion_threshold", RATE, default=0.01, optional=True),
        Field("self_repair_target", RATE, default=0.0, optional="self_repair_clipped_proportion_threshold"),
        Field("self_repair_scale", RATE, default=1.0, optional="self_repair_clipped_proportion_threshold"),
        Field("num_clipped", _Rounded(is_tensor=True), None, "<NumElementsClipped>"),
        Field("count", _Rounded(is_tensor=False), None, "<NumElementsProcessed>"),
        Field("num_self_repaired", _Rounded(is_tensor=False), None, optional=True),
        Field("num_backpropped", _Rounded(is_tensor=False), None, optional="num_self_repaired"),
    )
    heading = ("dim",)
    shown = ("norm_based_clipping", "clipping_threshold", "clipped_proportion", _self_repair_info)

    def __init__(self, dim: int, clipping_threshold: float = 15.0, norm_based_clipping: bool = False):
        super().__init__()
        self.input_dim = self.output_dim = dim
        self.clipping_threshold = clipping_threshold
        self.norm_based_clipping = norm_based_clipping
        self.self_repair_clipped_proportion_threshold = 1.0
        self.self_repair_target = 0.0
        self.self_repair_scale = 0.0
        self.count = 0.0
        self.num_clipped = torch.zeros((), dtype=torch.float64)
        self.num_self_repaired = 0.0
        self.num_backpropped = 0.0

    @property
    def backprop_rows_apart(self) -> bool:
        return not self._may_repair

    @property
    def _may_repair(self) -> bool:
        return self.self_repair_clipped_proportion_threshold < 1.0 and self.self_repair_scale != 0.0

    @property
    def clipped_proportion(self) -> float:
        return float(self.num_clipped) / self.count if self.count > 0 else 0.0

    def forward(self, x: Tensor, y: Tensor, indexes: None = None) -> None:
        _copy(x, y)

    def native(self, x: Tensor, y: Tensor) -> Operations | None:
        return operations.copy(y, x)

    def backward(
        self, x: Tensor, y: Tensor, y_deriv: Tensor, memo: Any, to_update: Updated, x_deriv: Deriv, indexes: Any = None
    ) -> None:
        threshold = self.clipping_threshold
        if x_deriv is None:
            return
        if threshold == 0.0:
            x_deriv.zero_()
            return
        if self.norm_based_clipping:
            norms = torch.linalg.vector_norm(y_deriv, dim=1, keepdim=True)
            torch.mul(y_deriv, (threshold / norms).clamp_max_(1.0), out=x_deriv)
            if isinstance(to_update, ClipGradientComponent):
                to_update.count += y_deriv.shape[0]
                to_update.num_clipped = to_update.num_clipped + (norms >= threshold).sum()
        else:
            torch.clamp(y_deriv, -threshold, threshold, out=x_deriv)
        if isinstance(to_update, ClipGradientComponent):
            to_update.num_backpropped += 1
            self._self_repair(x, x_deriv, to_update)

    def _self_repair(self, x: Tensor, x_deriv: Tensor, to_update: ClipGradientComponent) -> None:
        """Turns derivatives towards smaller inputs if much is clipped; keeps the sum of the derivatives' row norms."""
        if not self._may_repair or self.count == 0.0:
            return
        if self.rng.uniform() > _REPAIR_PROBABILITY:
            return
        proportion = self.clipped_proportion
        if proportion <= self.self_repair_clipped_proportion_threshold:
            return
        to_update.num_self_repaired += 1
        # R = max(|x| - target, 0) sgn(x); g_x -= z / P R with z = scale q (sum of |g_x row|) / (sum of |R row|)
        excess = x.sign().mul_((x.abs() - self.self_repair_target).clamp_min_(0.0))
        norm_before, norm_of_excess = _sum_of_row_norms(x_deriv), _sum_of_row_norms(excess)
        z = norm_before * (self.self_repair_scale * proportion) / norm_of_excess
        z = torch.where(norm_of_excess == 0.0, 0.0, z)
        x_deriv.addcmul_(excess, z, value=-1.0 / _REPAIR_PROBABILITY)
        norm_after = _sum_of_row_norms(x_deriv)
        x_deriv.mul_(torch.where(norm_after == 0.0, 1.0, norm_before / norm_after))


def _sum_of_row_norms(matrix: Tensor) -> Tensor:
    return torch.linalg.vector_norm(matrix, dim=1).sum()


_NEVER = 1e10  # what a threshold of 0 stands for


@dataclass(frozen=True)
class BackpropTruncationIndexes:
    """The mask (rows, 1) of rows at a zeroing boundary, and their number."""

    is_boundary: Tensor
    num_boundaries: int


@register
class BackpropTruncationComponent(Component):
    """y = scale x; the rows of the derivative are clipped, and zeroed if large at a zeroing boundary.

    Statistics: of `count` rows, `num_clipped`; of `count_zeroing_boundaries` rows at a boundary, `num_zeroed`.
    """

    backprop_is_linear, counts_backward = False, True
    properties = Properties.IN_PLACE
    statistic_names = ("num_clipped", "num_zeroed", "count", "count_zeroing_boundaries")
    needs_indexes = True
    indexes_go_on = True

    fields = (
        Field("dim", SIZE),
        Field("scale", POSITIVE, default=1.0, optional=True),
        Field("clipping_threshold", NUMBER, default=30.0),
        Field("zeroing_threshold", NUMBER, default=15.0),
        Field("zeroing_interval", SIZE, default=20),
        Field("recurrence_interval", SIZE, default=1),
        Field("num_clipped", TALLY, None, "<NumElementsClipped>"),
        Field("num_zeroed", TALLY, None, "<NumElementsZeroed>"),
        Field("count", DOUBLE, None, "<NumElementsProcessed>"),
        Field("count_zeroing_boundaries", DOUBLE, None, "<NumZeroingBoundaries>"),
    )
    heading = ("dim",)
    shown = (
        *("scale", "count", "recurrence_interval", "clipping_threshold", "clipped_proportion", "zeroing_threshold"),
        *("zeroing_interval", "zeroed_proportion", "count_zeroing_boundaries"),
    )

    def __init__(
        self,
        dim: int,
        scale: float = 1.0,
        clipping_threshold: float = 30.0,
        zeroing_threshold: float = 15.0,
        zeroing_interval: int = 20,
        recurrence_interval: int = 1,
    ):
        super().__init__()
        self.input_dim = self.output_dim = dim
        self.scale = scale
        self.clipping_threshold = clipping_threshold
        self.zeroing_threshold = zeroing_threshold
        self.zeroing_interval = zeroing_interval
        self.recurrence_interval = recurrence_interval
        self.num_clipped = torch.zeros((), dtype=torch.float64)
        self.num_zeroed = torch.zeros((), dtype=torch.float64)
        self.count = 0.0
        self.count_zeroing_boundaries = 0.0

    @property
    def clipped_proportion(self) -> float:
        return float(self.num_clipped) / self.count if self.count > 0 else 0.0

    @property
    def zeroed_proportion(self) -> float:
        boundaries = self.count_zeroing_boundaries
        return float(self.num_zeroed) / boundaries if boundaries > 0 else 0.0

    def precompute_indexes(self, inputs: np.ndarray, outputs: np.ndarray, *, need_backprop: bool) -> IndexArrays | None:
        if not need_backprop:
            return None
        return {"sequence": outputs[:, 0].astype(np.int64), "time": outputs[:, 1].astype(np.int64)}

    def load_indexes(self, arrays: Mapping[str, np.ndarray], device: torch.device | str) -> BackpropTruncationIndexes:
        # A row is at a boundary iff floor((t - n) / I) != floor((t - R - n) / I); "- n" spreads boundaries over time.
        start, interval = arrays["time"] - arrays["sequence"], self.zeroing_interval
        is_boundary = start // interval != (start - self.recurrence_interval) // interval
        number = int(np.count_nonzero(is_boundary))
        return BackpropTruncationIndexes(on_device(is_boundary[:, np.newaxis], device), number)

    def forward(self, x: Tensor, y: Tensor, indexes: BackpropTruncationIndexes | None = None) -> None:
        if self.scale != 1.0:
            torch.mul(x, self.scale, out=y)
        elif y.data_ptr() != x.data_ptr():
            y.copy_(x)

    def native(self, x: Tensor, y: Tensor) -> Operations | None:
        return operations.copy(y, x) if self.scale == 1.0 else operations.scaled_copy(y, x, self.scale)

    def backward(
        self, x: Tensor, y: Tensor, y_deriv: Tensor, memo: Any, to_update: Updated, x_deriv: Deriv, indexes: Any = None
    ) -> None:
        assert indexes is not None, "this type has needs_indexes"
        # With h = scale g_y: g_x = h min(1, clipping_threshold / |h|), or 0 at a boundary if |h| > zeroing_threshold
        limit, zeroed = self.clipping_threshold or _NEVER, self.zeroing_threshold or _NEVER
        counts: tuple[Tensor | int, Tensor | int] | None = None
        if x_deriv is not None:
            counts = cells.truncate(x_deriv, y_deriv, self.scale, limit, zeroed, indexes.is_boundary)
        if counts is None:
            norms = torch.linalg.vector_norm(y_deriv, dim=1, keepdim=True).mul_(self.scale)
            is_clipped, is_zeroed = norms > limit, (norms > zeroed).logical_and_(indexes.is_boundary)
            counts = is_clipped.sum(), is_zeroed.sum()
            if x_deriv is not None:
                factor = torch.where(is_clipped, limit / norms, 1.0).mul_(self.scale)
                torch.mul(y_deriv, factor.masked_fill_(is_zeroed, 0.0), out=x_deriv)
        if isinstance(to_update, BackpropTruncationComponent):
            if isinstance(counts[0], Tensor) or any(counts):
                to_update.num_clipped = to_update.num_clipped + counts[0]
                to_update.num_zeroed = to_update.num_zeroed + counts[1]
            to_update.count += y_deriv.shape[0]
            to_update.count_zeroing_boundaries += indexes.num_boundaries
