"""BackpropTruncationComponent: keeps derivatives that flow back through a recurrence bounded (components.md 5.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from nnet3.components.base import Component, Properties
from nnet3.components.fields import read_integer, read_number
from nnet3.components.index_arrays import IndexArrays
from nnet3.components.random_source import RandomSource
from nnet3.components.registry import register
from nnet3.components.summary import format_number

if TYPE_CHECKING:
    from typing_extensions import Self

    from nnet3.kaldi_io import Reader, Writer
    from nnet3.text import ConfigLine

_NEVER = 1e10  # what a threshold of 0 stands for


@dataclass(frozen=True)
class BackpropTruncationIndexes:
    """Which rows (rows, 1) are at a zeroing boundary, and how many are."""

    is_boundary: Tensor
    num_boundaries: int


@register
class BackpropTruncationComponent(Component):
    """y = scale x; the rows of the derivative are clipped, and zeroed if large at a zeroing boundary.

    Statistics: of `count` rows, `num_clipped`; of `count_zeroing_boundaries` rows at a boundary, `num_zeroed`.
    """

    type_name = "BackpropTruncationComponent"
    properties = Properties.PROPAGATE_IN_PLACE | Properties.BACKPROP_IN_PLACE
    statistic_names = ("num_clipped", "num_zeroed", "count", "count_zeroing_boundaries")
    needs_indexes = True
    indexes_type = BackpropTruncationIndexes

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

    @classmethod
    def from_config(cls, line: ConfigLine, rng: RandomSource) -> Self:
        return cls(
            line.integer("dim", minimum=1),
            line.number("scale", 1.0, above=0.0),
            line.number("clipping-threshold", 30.0, minimum=0.0),
            line.number("zeroing-threshold", 15.0, minimum=0.0),
            line.integer("zeroing-interval", 20, minimum=1),
            line.integer("recurrence-interval", 1, minimum=1),
        )

    @classmethod
    def read(cls, reader: Reader) -> Self:
        reader.expect("<Dim>")
        dim = read_integer(reader, "<Dim>")
        scale = read_number(reader, "<Scale>", above=0.0) if reader.accept("<Scale>") else 1.0
        reader.expect("<ClippingThreshold>")
        clipping_threshold = read_number(reader, "<ClippingThreshold>")
        reader.expect("<ZeroingThreshold>")
        zeroing_threshold = read_number(reader, "<ZeroingThreshold>")
        reader.expect("<ZeroingInterval>")
        zeroing_interval = read_integer(reader, "<ZeroingInterval>")
        reader.expect("<RecurrenceInterval>")
        recurrence_interval = read_integer(reader, "<RecurrenceInterval>")
        component = cls(dim, scale, clipping_threshold, zeroing_threshold, zeroing_interval, recurrence_interval)
        reader.expect("<NumElementsClipped>")
        component.num_clipped.fill_(reader.real())
        reader.expect("<NumElementsZeroed>")
        component.num_zeroed.fill_(reader.real())
        reader.expect("<NumElementsProcessed>")
        component.count = reader.real()
        reader.expect("<NumZeroingBoundaries>")
        component.count_zeroing_boundaries = reader.real()
        reader.expect("</BackpropTruncationComponent>")
        return component

    def write_body(self, writer: Writer) -> None:
        writer.token("<Dim>")
        writer.int32(self.input_dim)
        writer.token("<Scale>")
        writer.real(self.scale)
        writer.token("<ClippingThreshold>")
        writer.real(self.clipping_threshold)
        writer.token("<ZeroingThreshold>")
        writer.real(self.zeroing_threshold)
        writer.token("<ZeroingInterval>")
        writer.int32(self.zeroing_interval)
        writer.token("<RecurrenceInterval>")
        writer.int32(self.recurrence_interval)
        writer.token("<NumElementsClipped>")
        writer.double(float(self.num_clipped))
        writer.token("<NumElementsZeroed>")
        writer.double(float(self.num_zeroed))
        writer.token("<NumElementsProcessed>")
        writer.double(self.count)
        writer.token("<NumZeroingBoundaries>")
        writer.double(self.count_zeroing_boundaries)

    def info(self) -> str:
        clipped = float(self.num_clipped) / self.count if self.count > 0 else 0.0
        boundaries = self.count_zeroing_boundaries
        zeroed = float(self.num_zeroed) / boundaries if boundaries > 0 else 0.0
        values = {
            "scale": self.scale,
            "count": self.count,
            "recurrence-interval": self.recurrence_interval,
            "clipping-threshold": self.clipping_threshold,
            "clipped-proportion": clipped,
            "zeroing-threshold": self.zeroing_threshold,
            "zeroing-interval": self.zeroing_interval,
            "zeroed-proportion": zeroed,
            "count-zeroing-boundaries": boundaries,
        }
        shown = (f"{key}={format_number(value)}" for key, value in values.items())
        return f"{self.type_name}, dim={self.input_dim}, {', '.join(shown)}"

    def precompute_indexes(self, inputs: np.ndarray, outputs: np.ndarray, *, need_backprop: bool) -> IndexArrays:
        # A row is at a boundary iff floor((t - n) / I) != floor((t - R - n) / I); "- n" spreads boundaries over time.
        n, t = outputs[:, 0].astype(np.int64), outputs[:, 1].astype(np.int64)
        interval = self.zeroing_interval
        is_boundary = (t - n) // interval != (t - self.recurrence_interval - n) // interval
        return {"is_boundary": is_boundary[:, np.newaxis], "num_boundaries": np.array(is_boundary.sum())}

    def forward(self, x: Tensor, y: Tensor, indexes: BackpropTruncationIndexes | None = None) -> None:
        if self.scale != 1.0:
            torch.mul(x, self.scale, out=y)
        elif y.data_ptr() != x.data_ptr():
            y.copy_(x)

    def backward(
        self,
        x: Tensor,
        y: Tensor,
        y_deriv: Tensor,
        memo: None,
        to_update: Component | None,
        x_deriv: Tensor | None,
        indexes: BackpropTruncationIndexes | None = None,
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
