"""RepeatedAffineComponent, NaturalGradientRepeatedAffineComponent: one map for all blocks (components.md 7.6, 7.7)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from nnet3.components.affine import initial_linear
from nnet3.components.base import Component, Properties
from nnet3.components.block_affine import BlockAffineComponent, divisor
from nnet3.components.fields import read_integer, read_matrix, read_vector, write_matrix, write_vector
from nnet3.components.natural_gradient import OnlineNaturalGradient
from nnet3.components.registry import register
from nnet3.components.summary import mean_stddev, rms
from nnet3.components.updatable import UpdatableComponent, UpdatableHeader

if TYPE_CHECKING:
    from typing_extensions import Self

    from nnet3.components.random_source import RandomSource
    from nnet3.kaldi_io import Reader, Writer
    from nnet3.text import ConfigLine

_MOST_DIM = 2**31 - 1


@register
class RepeatedAffineComponent(UpdatableComponent):
    """Plain gradient. Parameters, shared by all blocks:

    linear_params (output_dim / num_repeats, input_dim / num_repeats), bias_params (output_dim / num_repeats,).
    """

    type_name = "RepeatedAffineComponent"
    properties = Properties.SIMPLE | Properties.UPDATABLE | Properties.BACKPROP_NEEDS_INPUT
    parameter_names = ("linear_params", "bias_params")

    def __init__(self, linear_params: Tensor, bias_params: Tensor, num_repeats: int) -> None:
        super().__init__()
        self.linear_params = linear_params
        self.bias_params = bias_params
        self.num_repeats = num_repeats
        self.output_dim, self.input_dim = (num_repeats * dim for dim in linear_params.shape)

    @classmethod
    def from_config(cls, line: ConfigLine, rng: RandomSource) -> Self:
        repeats = divisor(line, "num-repeats")
        linear = initial_linear(line, rng, repeats, repeats)
        mean, stddev = line.number("bias-mean", 0.0), line.number("bias-stddev", 0.0, minimum=0.0)
        component = cls(linear, rng.normal_tensor(linear.shape[0]) * stddev + mean, repeats)
        component.configure_updatable(line)
        return component

    @classmethod
    def read(cls, reader: Reader) -> Self:
        header = UpdatableHeader.read(reader)
        reader.expect("<NumRepeats>")
        repeats = read_integer(reader, "<NumRepeats>")
        reader.expect("<LinearParams>")
        linear = read_matrix(reader, "<LinearParams>")
        if repeats * max(linear.shape) > _MOST_DIM:
            raise reader.error(
                f"{repeats} repeats of {linear.shape[0]} x {linear.shape[1]} <LinearParams> are too many"
            )
        reader.expect("<BiasParams>")
        component = cls(linear, read_vector(reader, "<BiasParams>", linear.shape[0]), repeats)
        component.copy_header(header)
        if reader.accept("<IsGradient>"):  # old files
            component.is_gradient = reader.boolean()
        reader.expect(f"</{cls.type_name}>")
        return component

    def write_body(self, writer: Writer) -> None:
        self.write_header(writer)
        writer.token("<NumRepeats>")
        writer.int32(self.num_repeats)
        writer.token("<LinearParams>")
        write_matrix(writer, self.linear_params)
        writer.token("<BiasParams>")
        write_vector(writer, self.bias_params)

    def info(self) -> str:
        return (
            f"{super().info()}, num-repeats={self.num_repeats}"
            + rms("linear-params", self.linear_params)
            + mean_stddev("bias", self.bias_params)
        )

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
        """(rows, dim) as (rows * repeats, dim / repeats): a view if the rows are contiguous, else a copy."""
        return matrix.reshape(matrix.shape[0] * self.num_repeats, matrix.shape[1] // self.num_repeats)


@register
class NaturalGradientRepeatedAffineComponent(RepeatedAffineComponent):
    """Natural gradient whose directions are the rows of [dW db]. Parameters as RepeatedAffineComponent."""

    type_name = "NaturalGradientRepeatedAffineComponent"
    preconditioner_names = ("preconditioner",)

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
        gradient, scale = self.preconditioner.precondition(gradient)
        rate = self.learning_rate * float(scale)
        self.linear_params.add_(gradient[:, :-1], alpha=rate)
        self.bias_params.add_(gradient[:, -1], alpha=rate)
