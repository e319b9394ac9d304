"""AffineComponent and NaturalGradientAffineComponent: y = x W^T + b (components.md 7.1, 7.2)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from nnet3.components.base import Component, Properties
from nnet3.components.fields import (
    load_matrix_key,
    read_integer,
    read_matrix,
    read_number,
    read_vector,
    write_matrix,
    write_vector,
)
from nnet3.components.fixed import FixedAffineComponent
from nnet3.components.natural_gradient_pair import NaturalGradientPair
from nnet3.components.natural_gradient_product import add_natural_gradient
from nnet3.components.orthonormal import OrthonormalComponent
from nnet3.components.registry import register
from nnet3.components.summary import mean_stddev, rms, row_and_column_norms
from nnet3.components.updatable import UpdatableHeader

if TYPE_CHECKING:
    from typing_extensions import Self

    from nnet3.components.random_source import RandomSource
    from nnet3.kaldi_io import Reader, Writer
    from nnet3.text import ConfigLine


@register
class AffineComponent(OrthonormalComponent):
    """Plain gradient. Parameters: linear_params (output_dim, input_dim), bias_params (output_dim,)."""

    type_name = "AffineComponent"
    properties = Properties.SIMPLE | Properties.UPDATABLE | Properties.BACKPROP_NEEDS_INPUT
    parameter_names = ("linear_params", "bias_params")
    is_affine = True

    def __init__(self, linear_params: Tensor, bias_params: Tensor) -> None:
        super().__init__()
        self.linear_params = linear_params
        self.bias_params = bias_params
        self.output_dim, self.input_dim = linear_params.shape

    @classmethod
    def from_config(cls, line: ConfigLine, rng: RandomSource) -> Self:
        component = cls(*initial_affine(line, rng, 0.0))
        component.configure_updatable(line)
        component.configure_orthonormal(line)
        return component

    @classmethod
    def read(cls, reader: Reader) -> Self:
        header = UpdatableHeader.read(reader)
        reader.expect("<LinearParams>")
        linear = read_matrix(reader, "<LinearParams>")
        reader.expect("<BiasParams>")
        component = cls(linear, read_vector(reader, "<BiasParams>", linear.shape[0]))
        component.copy_header(header)
        component.read_settings(reader)
        return component

    def read_settings(self, reader: Reader) -> None:
        """What stands behind the parameters, the closing token included."""
        if reader.accept("<IsGradient>"):  # old files
            self.is_gradient = reader.boolean()
        self.read_orthonormal(reader)
        reader.expect("</AffineComponent>")

    def write_body(self, writer: Writer) -> None:
        self.write_header(writer)
        writer.token("<LinearParams>")
        write_matrix(writer, self.linear_params)
        writer.token("<BiasParams>")
        write_vector(writer, self.bias_params)
        self.write_settings(writer)

    def write_settings(self, writer: Writer) -> None:
        self.write_orthonormal(writer)

    def info(self) -> str:
        return (
            super().info()
            + self.orthonormal_info()
            + rms("linear-params", self.linear_params)
            + row_and_column_norms("linear-params", self.linear_params)
            + mean_stddev("bias", self.bias_params)
        )

    def as_fixed(self) -> FixedAffineComponent:
        return FixedAffineComponent(self.linear_params.clone(), self.bias_params.clone())

    def forward(self, x: Tensor, y: Tensor, indexes: Any = None) -> None:
        torch.addmm(self.bias_params, x, self.linear_params.t(), out=y)

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
        if x_deriv is not None:
            torch.mm(y_deriv, self.linear_params, out=x_deriv)
        if to_update is not None:
            assert isinstance(to_update, AffineComponent)
            to_update.update(x, y_deriv)

    def update(self, x: Tensor, y_deriv: Tensor) -> None:
        """W += rate G^T X, b += rate sum_n g."""
        self.linear_params.addmm_(y_deriv.t(), x, alpha=self.learning_rate)
        self.bias_params.add_(y_deriv.sum(0), alpha=self.learning_rate)


@register
class NaturalGradientAffineComponent(NaturalGradientPair, AffineComponent):
    """Natural gradient for input rows (with a one appended) and output derivatives.

    Parameters: linear_params (output_dim, input_dim), bias_params (output_dim,).
    """

    type_name = "NaturalGradientAffineComponent"

    def __init__(self, linear_params: Tensor, bias_params: Tensor) -> None:
        super().__init__(linear_params, bias_params)
        self.set_natural_gradient()

    @classmethod
    def from_config(cls, line: ConfigLine, rng: RandomSource) -> Self:
        bias_mean = 0.0 if line.has("matrix") else line.number("bias-mean", 0.0)
        component = cls(*initial_affine(line, rng, bias_mean))
        component.configure_updatable(line)
        component.configure_orthonormal(line)
        component.configure_natural_gradient(line)
        return component

    def read_settings(self, reader: Reader) -> None:
        reader.expect("<RankIn>")
        rank_in = read_integer(reader, "<RankIn>")
        reader.expect("<RankOut>")
        rank_out = read_integer(reader, "<RankOut>")
        self.read_orthonormal(reader)
        reader.expect("<UpdatePeriod>")
        update_period = read_integer(reader, "<UpdatePeriod>")
        reader.expect("<NumSamplesHistory>")
        history = read_number(reader, "<NumSamplesHistory>", above=0.0)
        reader.expect("<Alpha>")
        alpha = read_number(reader, "<Alpha>")
        self.set_natural_gradient(rank_in, rank_out, update_period, history, alpha)
        self._read_obsolete(reader)
        closing = reader.token()
        if not closing.endswith("NaturalGradientAffineComponent>"):
            raise reader.error(f"expected </NaturalGradientAffineComponent>, got '{closing}'")

    def _read_obsolete(self, reader: Reader) -> None:
        """What old files have at the end."""
        if reader.accept("<MaxChangePerSample>"):
            reader.real()
        if reader.accept("<IsGradient>"):
            self.is_gradient = reader.boolean()
        for token in ("<UpdateCount>", "<ActiveScalingCount>", "<MaxChangeScaleStats>"):
            if reader.accept(token):
                reader.real()

    def write_settings(self, writer: Writer) -> None:
        writer.token("<RankIn>")
        writer.int32(self.preconditioner_in.rank)
        writer.token("<RankOut>")
        writer.int32(self.preconditioner_out.rank)
        self.write_orthonormal(writer)
        writer.token("<UpdatePeriod>")
        writer.int32(self.preconditioner_in.update_period)
        writer.token("<NumSamplesHistory>")
        writer.real(self.preconditioner_in.num_samples_history)
        writer.token("<Alpha>")
        writer.real(self.preconditioner_in.alpha)

    def info(self) -> str:
        return super().info() + self.natural_gradient_info()

    def update(self, x: Tensor, y_deriv: Tensor) -> None:
        """W += rate s1 s2 G'^T X', b += rate s1 s2 G'^T x' with ([X' x'], s1) = PD([X 1]), (G', s2) = PD(G)."""
        if self.is_gradient:
            super().update(x, y_deriv)
            return
        add_natural_gradient(
            self.linear_params,
            self.bias_params,
            self.learning_rate,
            x,
            self.preconditioner_in,
            y_deriv,
            self.preconditioner_out,
        )


def initial_affine(line: ConfigLine, rng: RandomSource, bias_mean: float) -> tuple[Tensor, Tensor]:
    """W and b from the file that `matrix` names (W with b as last column), or random."""
    if line.has("matrix"):
        matrix = load_matrix_key(line, "matrix")
        if matrix.shape[1] < 2:
            raise line.error("the matrix must have at least 2 columns: the last one is the bias", "matrix")
        check_dims_of_matrix(line, input_dim=matrix.shape[1] - 1, output_dim=matrix.shape[0])
        return matrix[:, :-1].contiguous(), matrix[:, -1].contiguous()
    linear = initial_linear(line, rng)
    stddev = line.number("bias-stddev", 1.0, minimum=0.0)
    return linear, rng.normal_tensor(linear.shape[0]) * stddev + bias_mean


def initial_linear(line: ConfigLine, rng: RandomSource, input_blocks: int = 1, output_blocks: int = 1) -> Tensor:
    """Normal numbers (output-dim / output_blocks, input-dim / input_blocks) of standard deviation `param-stddev`."""
    input_dim = line.integer("input-dim", minimum=1) // input_blocks
    output_dim = line.integer("output-dim", minimum=1) // output_blocks
    stddev = line.number("param-stddev", 1 / math.sqrt(input_dim), minimum=0.0)
    return rng.normal_tensor(output_dim, input_dim) * stddev


def check_dims_of_matrix(line: ConfigLine, input_dim: int, output_dim: int) -> None:
    """Dimensions beside `matrix` are optional, but must be those of the matrix."""
    for key, dim in (("input-dim", input_dim), ("output-dim", output_dim)):
        given = line.integer(key, dim, minimum=1)
        if given != dim:
            raise line.error(f"'{key}' is {given}, but the matrix has {dim}", key)
