"""Types that map equal parts of the input columns to one output column each.

PnormComponent reduces groups of neighbouring columns; SumBlockComponent and ElementwiseProductComponent
reduce the columns with the same place in each of several blocks.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from nnet3.components.base import Component, Deriv, Properties, Updated
from nnet3.components.field_table import Field, divisor_of
from nnet3.components.kinds import REAL, SIZE, Values
from nnet3.components.registry import register


class _Reduction(Component):
    """An input dimension that is a multiple of the output dimension."""

    fields: ClassVar[tuple[Field, ...]] = (
        Field("input_dim", SIZE),
        Field("output_dim", SIZE, check=divisor_of("input_dim")),
    )

    def __init__(self, input_dim: int, output_dim: int):
        super().__init__()
        self.input_dim, self.output_dim = input_dim, output_dim

    def _groups(self, matrix: Tensor) -> Tensor:
        """The input seen as (rows, output columns, input columns of each)."""
        return matrix.unflatten(1, (self.output_dim, -1))

    def _blocks(self, matrix: Tensor) -> Tensor:
        """The input seen as (rows, blocks, output columns)."""
        return matrix.unflatten(1, (-1, self.output_dim))


@register
class PnormComponent(_Reduction):
    """y_j = Euclidean norm of the j-th group of neighbouring inputs."""

    properties = Properties.SIMPLE | Properties.BACKPROP_NEEDS_INPUT | Properties.BACKPROP_NEEDS_OUTPUT

    def forward(self, x: Tensor, y: Tensor, indexes: None = None) -> None:
        torch.linalg.vector_norm(self._groups(x), dim=2, out=y)

    def backward(
        self, x: Tensor, y: Tensor, y_deriv: Tensor, memo: Any, to_update: Updated, x_deriv: Deriv, indexes: Any = None
    ) -> None:
        if x_deriv is None:
            return
        # g_x,i = g_y,j x_i / y_j, and 0 where y_j = 0
        ratio = (y_deriv / y).masked_fill_(y == 0, 0.0)
        torch.mul(self._groups(x), ratio.unsqueeze(2), out=self._groups(x_deriv))


@register
class SumBlockComponent(_Reduction):
    """y = scale times the sum of the blocks of output_dim inputs."""

    properties = Properties.SIMPLE

    fields = (*_Reduction.fields, Field("scale", REAL, default=1.0))
    shown = ("scale",)

    def __init__(self, input_dim: int, output_dim: int, scale: float = 1.0):
        super().__init__(input_dim, output_dim)
        self.scale = scale

    def forward(self, x: Tensor, y: Tensor, indexes: None = None) -> None:
        torch.sum(self._blocks(x), 1, out=y)
        if self.scale != 1.0:
            y.mul_(self.scale)

    def backward(
        self, x: Tensor, y: Tensor, y_deriv: Tensor, memo: Any, to_update: Updated, x_deriv: Deriv, indexes: Any = None
    ) -> None:
        if x_deriv is not None:
            blocks = self._blocks(x_deriv)
            torch.mul(y_deriv.unsqueeze(1).expand_as(blocks), self.scale, out=blocks)


def _fault_of_blocks(output_dim: int, values: Values) -> str:
    input_dim = values["input_dim"]
    if input_dim == output_dim:
        return f"must be at most half of input-dim={input_dim}, got {output_dim}"
    return divisor_of("input_dim")(output_dim, values)


@register
class ElementwiseProductComponent(_Reduction):
    """y = product of the blocks of output_dim inputs, element by element."""

    properties = Properties.SIMPLE | Properties.BACKPROP_NEEDS_INPUT

    fields = (Field("input_dim", SIZE), Field("output_dim", SIZE, check=_fault_of_blocks))

    def forward(self, x: Tensor, y: Tensor, indexes: None = None) -> None:
        first, second, *others = self._blocks(x).unbind(1)
        torch.mul(first, second, out=y)
        for block in others:
            y.mul_(block)

    def backward(
        self, x: Tensor, y: Tensor, y_deriv: Tensor, memo: Any, to_update: Updated, x_deriv: Deriv, indexes: Any = None
    ) -> None:
        if x_deriv is None:
            return
        # g_x of a block = g_y times the product of all other blocks: of those before it, then of those behind it
        blocks, derivs = self._blocks(x).unbind(1), self._blocks(x_deriv).unbind(1)
        derivs[0].copy_(y_deriv)
        for i in range(1, len(blocks)):
            torch.mul(derivs[i - 1], blocks[i - 1], out=derivs[i])
        behind = blocks[-1]
        for i in range(len(blocks) - 2, -1, -1):
            derivs[i].mul_(behind)
            behind = behind * blocks[i] if i > 0 else behind
