"""ClipGradientComponent: y = x, with a derivative that is kept within bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nnet3.components.base import Component, Deriv, Properties, Updated
from nnet3.components.field_table import Field, show
from nnet3.components.kinds import BOOLEAN, COUNT, NUMBER, RATE, SIZE, Tally, Values
from nnet3.components.registry import register
from nnet3.kaldi_io import Reader, Writer

_REPAIR_PROBABILITY = 0.5
_INT32_MAX = 2**31 - 1


@dataclass(frozen=True)
class _Rounded(Tally):
    """A number of elements, as an int32."""

    is_tensor: bool

    def read(self, reader: Reader, what: str, values: Values) -> Any:
        count = float(COUNT.read(reader, what, values))
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
    def clipped_proportion(self) -> float:
        return float(self.num_clipped) / self.count if self.count > 0 else 0.0

    def forward(self, x: Tensor, y: Tensor, indexes: None = None) -> None:
        if y.data_ptr() != x.data_ptr():
            y.copy_(x)

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
        """Turns derivatives towards smaller inputs if much is clipped; their sum of row norms stays what it is."""
        if self.self_repair_clipped_proportion_threshold >= 1.0 or self.self_repair_scale == 0.0 or self.count == 0.0:
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
