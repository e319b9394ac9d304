"""BackpropTruncationComponent: keeps derivatives that flow back through a recurrence bounded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nnet3.components.base import Component, Deriv, IndexArrays, Properties, Updated
from nnet3.components.field_table import Field
from nnet3.components.kinds import DOUBLE, NUMBER, POSITIVE, SIZE, TALLY
from nnet3.components.registry import register

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

    properties = Properties.IN_PLACE
    statistic_names = ("num_clipped", "num_zeroed", "count", "count_zeroing_boundaries")
    needs_indexes = True
    indexes_type = BackpropTruncationIndexes

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
        # A row is at a boundary iff floor((t - n) / I) != floor((t - R - n) / I); "- n" spreads boundaries over time.
        start = outputs[:, 1] - outputs[:, 0].astype(np.int64)
        is_boundary = start // self.zeroing_interval != (start - self.recurrence_interval) // self.zeroing_interval
        return {"is_boundary": is_boundary[:, np.newaxis], "num_boundaries": np.array(np.count_nonzero(is_boundary))}

    def forward(self, x: Tensor, y: Tensor, indexes: BackpropTruncationIndexes | None = None) -> None:
        if self.scale != 1.0:
            torch.mul(x, self.scale, out=y)
        elif y.data_ptr() != x.data_ptr():
            y.copy_(x)

    def backward(
        self, x: Tensor, y: Tensor, y_deriv: Tensor, memo: Any, to_update: Updated, x_deriv: Deriv, indexes: Any = None
    ) -> None:
        assert indexes is not None, "this type has needs_indexes"
        # With h = scale g_y: g_x = h min(1, clipping_threshold / |h|), or 0 at a boundary if |h| > zeroing_threshold
        norms = torch.linalg.vector_norm(y_deriv, dim=1, keepdim=True).mul_(self.scale)
        limit = self.clipping_threshold or _NEVER
        is_clipped = norms > limit
        is_zeroed = (norms > (self.zeroing_threshold or _NEVER)).logical_and_(indexes.is_boundary)
        if x_deriv is not None:
            factor = torch.where(is_clipped, limit / norms, 1.0).mul_(self.scale)
            torch.mul(y_deriv, factor.masked_fill_(is_zeroed, 0.0), out=x_deriv)
        if isinstance(to_update, BackpropTruncationComponent):
            to_update.num_clipped = to_update.num_clipped + is_clipped.sum()
            to_update.num_zeroed = to_update.num_zeroed + is_zeroed.sum()
            to_update.count += y_deriv.shape[0]
            to_update.count_zeroing_boundaries += indexes.num_boundaries
