"""ScaleAndOffsetComponent: y = s o x + o."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from nnet3.components.base import Deriv, Properties, Updated
from nnet3.components.field_table import Field, Summary, length_of
from nnet3.components.kinds import BOOLEAN, SIZE, VECTOR, Values, Vector
from nnet3.components.natural_gradient import OnlineNaturalGradient
from nnet3.components.natural_gradient_settings import Setting
from nnet3.components.per_element import block_dim_of
from nnet3.components.random_source import RandomSource
from nnet3.components.registry import register
from nnet3.components.summary import mean_stddev
from nnet3.components.updatable import UpdatableComponent
from nnet3.kaldi_io import Reader
from nnet3.text import ConfigLine

if TYPE_CHECKING:
    from typing_extensions import Self

_LEAST_SCALE = 1e-4  # x is recovered from y by dividing by the scales


def _fault_of_block(scales: Tensor, values: Values) -> str:
    dim = values["dim"]
    return f"has {len(scales)} elements, of which <Dim> {dim} is no multiple" if dim % len(scales) else ""


def _block_info(component: ScaleAndOffsetComponent) -> str:
    size = len(component.scales)
    return "" if size == component.input_dim else f", block-size={size}"


@register
class ScaleAndOffsetComponent(UpdatableComponent):
    """The same scales and offsets for each block of the row.

    Parameters: scales (block_dim,), offsets (block_dim,), where block_dim divides dim. As in Kaldi, the
    natural-gradient estimates change each 4th minibatch, but each one in a component that was read from a file.
    """

    properties = Properties.SIMPLE | Properties.UPDATABLE | Properties.BACKPROP_NEEDS_OUTPUT | Properties.IN_PLACE
    parameter_names = ("scales", "offsets")
    preconditioner_names = ("scale_preconditioner", "offset_preconditioner")

    rank = Setting("rank", "scale_preconditioner", "offset_preconditioner")
    update_period = Setting("update_period", "scale_preconditioner", "offset_preconditioner")
    fields = (
        Field("dim", SIZE),
        Field("scales", VECTOR, None, check=_fault_of_block),
        Field("offsets", Vector(length_of("scales")), None),
        Field("use_natural_gradient", BOOLEAN, default=True),
        Field("rank", SIZE, default=20),
    )
    shown = ("rank", _block_info, Summary(mean_stddev, "scales"), Summary(mean_stddev, "offsets"))

    def __init__(self, scales: Tensor, offsets: Tensor, dim: int) -> None:
        super().__init__()
        self.scales = scales
        self.offsets = offsets
        self.input_dim = self.output_dim = dim
        self.use_natural_gradient = True
        self.scale_preconditioner = OnlineNaturalGradient(rank=20, update_period=4)
        self.offset_preconditioner = OnlineNaturalGradient(rank=20, update_period=4)

    @classmethod
    def initial_values(cls, line: ConfigLine, rng: RandomSource) -> dict[str, Any]:
        dim = line.integer("dim", minimum=1)
        block_dim = block_dim_of(line, dim)
        return {"dim": dim, "scales": torch.ones(block_dim), "offsets": torch.zeros(block_dim)}

    @classmethod
    def read(cls, reader: Reader) -> Self:
        component = super().read(reader)
        component.update_period = 1
        return component

    def forward(self, x: Tensor, y: Tensor, indexes: Any = None) -> None:
        torch.addcmul(self.offsets, self._by_block(x), self.safe_scales(), out=self._by_block(y))

    def backward(
        self, x: Tensor, y: Tensor, y_deriv: Tensor, memo: Any, to_update: Updated, x_deriv: Deriv, indexes: Any = None
    ) -> None:
        if to_update is not None:  # first, because x_deriv may be the memory of y_deriv
            assert isinstance(to_update, ScaleAndOffsetComponent)
            x_hat = (self._by_block(y) - self.offsets).div_(self.safe_scales())
            to_update.update(x_hat.mul_(self._by_block(y_deriv)), self._by_block(y_deriv))
        if x_deriv is not None:
            torch.mul(self._by_block(y_deriv), self.scales, out=self._by_block(x_deriv))

    def update(self, scale_gradients: Tensor, offset_gradients: Tensor) -> None:
        """s += rate c sum of the rows of M', with (M', c) = PD(x o g), and o likewise with PD(g)."""
        natural = self.use_natural_gradient and not self.is_gradient
        for tensor, gradients, preconditioner in (
            (self.scales, scale_gradients, self.scale_preconditioner),
            (self.offsets, offset_gradients, self.offset_preconditioner),
        ):
            gradients = gradients.reshape(-1, len(tensor))
            rate = self.learning_rate
            if natural:
                gradients, scale = preconditioner.precondition(gradients)
                rate *= float(scale)
            tensor.add_(gradients.sum(0), alpha=rate)

    def safe_scales(self) -> Tensor:
        """The scales with those near zero moved to +-1e-4."""
        least = torch.where(self.scales < 0, -_LEAST_SCALE, _LEAST_SCALE).to(self.scales)
        return torch.where(self.scales.abs() < _LEAST_SCALE, least, self.scales)

    def _by_block(self, matrix: Tensor) -> Tensor:
        """(rows, dim) as (rows, blocks, block_dim), a view."""
        return matrix.unflatten(1, (-1, len(self.scales)))
