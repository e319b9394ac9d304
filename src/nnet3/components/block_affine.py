"""BlockAffineComponent: an affine map that is block-diagonal."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from nnet3.components.affine import initial_linear
from nnet3.components.base import Deriv, Properties, Updated
from nnet3.components.field_table import Field, Summary, length_of
from nnet3.components.kinds import MATRIX, SIZE, Values, Vector
from nnet3.components.per_element_scale import initial_vector
from nnet3.components.random_source import RandomSource
from nnet3.components.registry import register
from nnet3.components.summary import mean_stddev, rms
from nnet3.components.updatable import OLD_IS_GRADIENT, UpdatableComponent
from nnet3.text import ConfigLine


def _fault_of_rows(linear: Tensor, values: Values) -> str:
    blocks = values["num_blocks"]
    return f"has {len(linear)} rows, which {blocks} blocks do not divide" if len(linear) % blocks else ""


@register
class BlockAffineComponent(UpdatableComponent):
    """Block k maps the k-th part of the input to the k-th part of the output. Plain gradient.

    Parameters: linear_params (output_dim, input_dim / num_blocks), block below block; bias_params (output_dim,).
    """

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
        """W as (blocks, output part, input part)."""
        return self.linear_params.view(self.num_blocks, -1, self.linear_params.shape[1])

    def _by_block(self, matrix: Tensor) -> Tensor:
        """(rows, dim) as (blocks, rows, dim / blocks), a view."""
        return matrix.unflatten(1, (self.num_blocks, -1)).transpose(0, 1)


def divisor(line: ConfigLine, key: str) -> int:
    """A number of blocks, which must divide `input-dim` and `output-dim`."""
    blocks = line.integer(key, minimum=1)
    for dim_key in ("input-dim", "output-dim"):
        dim = line.integer(dim_key, minimum=1)
        if dim % blocks != 0:
            raise line.error(f"'{key}' must divide '{dim_key}', but {dim} is no multiple of {blocks}", key)
    return blocks
