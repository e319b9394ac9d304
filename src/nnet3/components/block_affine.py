"""BlockAffineComponent: an affine map that is block-diagonal (components.md 7.5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from nnet3.components.affine import initial_linear
from nnet3.components.base import Component, Properties
from nnet3.components.fields import read_integer, read_matrix, read_vector, write_matrix, write_vector
from nnet3.components.registry import register
from nnet3.components.summary import mean_stddev, rms
from nnet3.components.updatable import UpdatableComponent, UpdatableHeader

if TYPE_CHECKING:
    from typing_extensions import Self

    from nnet3.components.random_source import RandomSource
    from nnet3.kaldi_io import Reader, Writer
    from nnet3.text import ConfigLine


@register
class BlockAffineComponent(UpdatableComponent):
    """Block k maps the k-th part of the input to the k-th part of the output. Plain gradient.

    Parameters: linear_params (output_dim, input_dim / num_blocks), block below block; bias_params (output_dim,).
    """

    type_name = "BlockAffineComponent"
    properties = Properties.SIMPLE | Properties.UPDATABLE | Properties.BACKPROP_NEEDS_INPUT
    parameter_names = ("linear_params", "bias_params")

    def __init__(self, linear_params: Tensor, bias_params: Tensor, num_blocks: int) -> None:
        super().__init__()
        self.linear_params = linear_params
        self.bias_params = bias_params
        self.num_blocks = num_blocks
        self.input_dim = num_blocks * linear_params.shape[1]
        self.output_dim = linear_params.shape[0]

    @classmethod
    def from_config(cls, line: ConfigLine, rng: RandomSource) -> Self:
        blocks = divisor(line, "num-blocks")
        linear = initial_linear(line, rng, blocks)
        mean, stddev = line.number("bias-mean", 0.0), line.number("bias-stddev", 1.0, minimum=0.0)
        component = cls(linear, rng.normal_tensor(linear.shape[0]) * stddev + mean, blocks)
        component.configure_updatable(line)
        return component

    @classmethod
    def read(cls, reader: Reader) -> Self:
        header = UpdatableHeader.read(reader)
        reader.expect("<NumBlocks>")
        blocks = read_integer(reader, "<NumBlocks>")
        reader.expect("<LinearParams>")
        linear = read_matrix(reader, "<LinearParams>")
        if linear.shape[0] % blocks != 0:
            raise reader.error(f"<LinearParams> has {linear.shape[0]} rows, which {blocks} blocks do not divide")
        reader.expect("<BiasParams>")
        component = cls(linear, read_vector(reader, "<BiasParams>", linear.shape[0]), blocks)
        component.copy_header(header)
        if reader.accept("<IsGradient>"):  # old files
            component.is_gradient = reader.boolean()
        reader.expect("</BlockAffineComponent>")
        return component

    def write_body(self, writer: Writer) -> None:
        self.write_header(writer)
        writer.token("<NumBlocks>")
        writer.int32(self.num_blocks)
        writer.token("<LinearParams>")
        write_matrix(writer, self.linear_params)
        writer.token("<BiasParams>")
        write_vector(writer, self.bias_params)

    def info(self) -> str:
        return (
            f"{super().info()}, num-blocks={self.num_blocks}"
            + rms("linear-params", self.linear_params)
            + mean_stddev("bias", self.bias_params)
        )

    def forward(self, x: Tensor, y: Tensor, indexes: Any = None) -> None:
        blocks = self._blocks_of_params()
        bias = self.bias_params.view(self.num_blocks, 1, -1)
        torch.baddbmm(bias, self._by_block(x), blocks.transpose(1, 2), out=self._by_block(y))

    def backward(
        self,
        x: Tensor,
        y: Tensor,
        y_deriv: Tensor,
        memo: Any,
        to_update: Component | None,
        x_deriv: Tensor | None,
        indexes: Any = None,
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
