"""Affine maps of blocks of the input: BlockAffineComponent, with a map for each block, and RepeatedAffineComponent."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from nnet3.base.text import ConfigLine
from nnet3.model.components.affine import initial_linear
from nnet3.model.components.base import Deriv, Properties, UpdatableComponent, Updated
from nnet3.model.components.component_types import register
from nnet3.model.components.field_table import Field, Summary, length_of, mean_stddev, rms
from nnet3.model.components.natural_gradient import OnlineNaturalGradient
from nnet3.model.components.per_element import initial_vector
from nnet3.model.components.random_source import RandomSource
from nnet3.model.components.row_sums import whole_gradient
from nnet3.model.components.updatable import OLD_IS_GRADIENT
from nnet3.model.components.value_kinds import MATRIX, SIZE, Values, Vector


def _fault_of_rows(linear: Tensor, values: Values) -> str:
    blocks = values["num_blocks"]
    return f"has {len(linear)} rows, which {blocks} blocks do not divide" if len(linear) % blocks else ""


@register
class BlockAffineComponent(UpdatableComponent):
    """Block k maps the k-th part of the input to the k-th part of the output. Plain gradient.

    Parameters: linear_params (output_dim, input_dim / num_blocks), block below block; bias_params (output_dim,).
    """

    is_linear = True
    properties = Properties.SIMPLE | Properties.UPDATABLE | Properties.BACKPROP_NEEDS_INPUT
    parameter_names = ("linear_params", "bias_params")

    fields = (
        Field("num_blocks", SIZE),
        Field("linear_params", MATRIX, None, check=_fault_of_rows),
        Field("bias_params", Vector(length_of("linear_params")), None),
        OLD_IS_GRADIENT,
    )
    shown = ("num_blocks", Summary(rms, "linear_params"), Summary(mean_stddev, "bias_params", "bias"))

    def __init__(self, linear_params: Tensor, bias_params: Tensor, num_blocks: int) -> None:
        super().__init__()
        self.linear_params = linear_params
        self.bias_params = bias_params
        self.num_blocks = num_blocks
        self.input_dim = num_blocks * linear_params.shape[1]
        self.output_dim = linear_params.shape[0]

    @classmethod
    def initial_values(cls, line: ConfigLine, rng: RandomSource) -> dict[str, Any]:
        blocks = divisor(line, "num-blocks")
        linear = initial_linear(line, rng, blocks)
        return {"linear_params": linear, "bias_params": initial_vector(line, rng, len(linear), 0.0, "bias", 1.0)}

    def forward(self, x: Tensor, y: Tensor, indexes: Any = None) -> None:
        blocks = self._blocks_of_params()
        bias = self.bias_params.view(self.num_blocks, 1, -1)
        torch.baddbmm(bias, self._by_block(x), blocks.transpose(1, 2), out=self._by_block(y))

    def backward(
        self, x: Tensor, y: Tensor, y_deriv: Tensor, memo: Any, to_update: Updated, x_deriv: Deriv, indexes: Any = None
    ) -> None:
        by_block = self._by_block(y_deriv)
        if x_deriv is not None:
            torch.bmm(by_block, self._blocks_of_params(), out=self._by_block(x_deriv))
        if to_update is not None:
            assert isinstance(to_update, BlockAffineComponent)
            rate = to_update.learning_rate
            to_update._blocks_of_params().baddbmm_(by_block.transpose(1, 2), self._by_block(x), alpha=rate)
            to_update.bias_params.add_(y_deriv.sum(0), alpha=rate)

    def _blocks_of_params(self) -> Tensor:
        """Returns W as (blocks, output part, input part)."""
        return self.linear_params.view(self.num_blocks, -1, self.linear_params.shape[1])

    def _by_block(self, matrix: Tensor) -> Tensor:
        """Returns (rows, dim) as (blocks, rows, dim / blocks), a view."""
        return matrix.unflatten(1, (self.num_blocks, -1)).transpose(0, 1)


def divisor(line: ConfigLine, key: str) -> int:
    """Returns a number of blocks, which must divide `input-dim` and `output-dim`."""
    blocks = line.integer(key, minimum=1)
    for dim_key in ("input-dim", "output-dim"):
        dim = line.integer(dim_key, minimum=1)
        if dim % blocks != 0:
            raise line.error(f"'{key}' must divide '{dim_key}', but {dim} is no multiple of {blocks}", key)
    return blocks


_MOST_DIM = 2**31 - 1


def _fault_of_size(linear: Tensor, values: Values) -> str:
    repeats, (rows, columns) = values["num_repeats"], linear.shape
    return (
        f"of size {rows} x {columns} is too large for {repeats} repeats"
        if repeats * max(rows, columns) > _MOST_DIM
        else ""
    )


@register
class RepeatedAffineComponent(UpdatableComponent):
    """Plain gradient. Parameters, shared by all blocks:

    linear_params (output_dim / num_repeats, input_dim / num_repeats), bias_params (output_dim / num_repeats,).
    """

    is_linear = True
    properties = Properties.SIMPLE | Properties.UPDATABLE | Properties.BACKPROP_NEEDS_INPUT
    parameter_names = ("linear_params", "bias_params")

    fields = (
        Field("num_repeats", SIZE),
        Field("linear_params", MATRIX, None, check=_fault_of_size),
        Field("bias_params", Vector(length_of("linear_params")), None),
        OLD_IS_GRADIENT,
    )
    shown = ("num_repeats", Summary(rms, "linear_params"), Summary(mean_stddev, "bias_params", "bias"))

    def __init__(self, linear_params: Tensor, bias_params: Tensor, num_repeats: int) -> None:
        super().__init__()
        self.linear_params = linear_params
        self.bias_params = bias_params
        self.num_repeats = num_repeats
        self.output_dim, self.input_dim = (num_repeats * dim for dim in linear_params.shape)

    @classmethod
    def initial_values(cls, line: ConfigLine, rng: RandomSource) -> dict[str, Any]:
        repeats = divisor(line, "num-repeats")
        linear = initial_linear(line, rng, repeats, repeats)
        return {"linear_params": linear, "bias_params": initial_vector(line, rng, len(linear), 0.0, "bias")}

    def without_repeats(self) -> BlockAffineComponent:
        count = self.num_repeats
        block = BlockAffineComponent(self.linear_params.repeat(count, 1), self.bias_params.repeat(count), count)
        block.copy_header(self)
        return block

    def forward(self, x: Tensor, y: Tensor, indexes: Any = None) -> None:
        if y.is_contiguous():
            torch.addmm(self.bias_params, self._by_block(x), self.linear_params.t(), out=self._by_block(y))
        else:
            y.copy_(torch.addmm(self.bias_params, self._by_block(x), self.linear_params.t()).view(y.shape))

    def backward(
        self, x: Tensor, y: Tensor, y_deriv: Tensor, memo: Any, to_update: Updated, x_deriv: Deriv, indexes: Any = None
    ) -> None:
        by_block = self._by_block(y_deriv)
        if x_deriv is not None and x_deriv.is_contiguous():
            torch.mm(by_block, self.linear_params, out=self._by_block(x_deriv))
        elif x_deriv is not None:
            x_deriv.copy_((by_block @ self.linear_params).view(x_deriv.shape))
        if to_update is not None:
            assert isinstance(to_update, RepeatedAffineComponent)
            to_update.update(self._by_block(x), by_block)

    def update(self, x: Tensor, y_deriv: Tensor) -> None:
        """W += rate G^T X, b += rate sum g over (rows * repeats) blocks."""
        self.linear_params.addmm_(y_deriv.t(), x, alpha=self.learning_rate)
        self.bias_params.add_(y_deriv.sum(0), alpha=self.learning_rate)

    def _by_block(self, matrix: Tensor) -> Tensor:
        """Returns (rows, dim) as (rows * repeats, dim / repeats): a view if the rows are contiguous, else a copy."""
        return matrix.reshape(matrix.shape[0] * self.num_repeats, matrix.shape[1] // self.num_repeats)


@register
class NaturalGradientRepeatedAffineComponent(RepeatedAffineComponent):
    """Natural gradient whose directions are the rows of [dW db]. Parameters as RepeatedAffineComponent."""

    preconditioner_names = ("preconditioner",)
    can_freeze = False

    def __init__(self, linear_params: Tensor, bias_params: Tensor, num_repeats: int) -> None:
        super().__init__(linear_params, bias_params, num_repeats)
        rank = max(1, min(40, linear_params.shape[1] // 2))
        self.preconditioner = OnlineNaturalGradient(rank, update_period=4)

    def update(self, x: Tensor, y_deriv: Tensor) -> None:
        """[W b] += rate s D' with (D', s) = PD([G^T X, sum g])."""
        if self.is_gradient:
            super().update(x, y_deriv)
            return
        gradient = torch.cat([y_deriv.t() @ x, y_deriv.sum(0)[:, None]], dim=1)
        with whole_gradient(gradient) as share:
            gradient, scale = self.preconditioner.precondition(gradient)
        rate = self.learning_rate * share * scale
        self.linear_params.add_(gradient[:, :-1], alpha=rate)
        self.bias_params.add_(gradient[:, -1], alpha=rate)
