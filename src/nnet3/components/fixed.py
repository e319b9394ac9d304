"""Types whose parameters are never trained: FixedAffine, FixedScale and FixedBias (components.md 4.7 to 4.9)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from nnet3.components.base import Component, Properties
from nnet3.components.fields import (
    load_matrix_key,
    load_vector_key,
    read_matrix,
    read_vector,
    write_matrix,
    write_vector,
)
from nnet3.components.random_source import RandomSource
from nnet3.components.registry import register
from nnet3.components.summary import mean_stddev, rms

if TYPE_CHECKING:
    from typing_extensions import Self

    from nnet3.kaldi_io import Reader, Writer
    from nnet3.text import ConfigLine


@register
class FixedAffineComponent(Component):
    """y = x W^T + b. Constants: linear_params W (output_dim, input_dim), bias_params b (output_dim)."""

    type_name = "FixedAffineComponent"
    properties = Properties.SIMPLE
    constant_names = ("linear_params", "bias_params")

    def __init__(self, linear_params: Tensor, bias_params: Tensor):
        super().__init__()
        self.linear_params, self.bias_params = linear_params, bias_params
        self.output_dim, self.input_dim = linear_params.shape

    @classmethod
    def from_config(cls, line: ConfigLine, rng: RandomSource) -> Self:
        if line.has("matrix"):
            matrix = load_matrix_key(line, "matrix")
            if matrix.shape[1] < 2:
                raise line.error("'matrix' must have a column more than there are inputs, but has only one", "matrix")
        else:
            input_dim = line.integer("input-dim", minimum=1)
            output_dim = line.integer("output-dim", minimum=1)
            matrix = rng.normal_tensor(output_dim, input_dim + 1)
        return cls(matrix[:, :-1].contiguous(), matrix[:, -1].contiguous())

    @classmethod
    def read(cls, reader: Reader) -> Self:
        reader.expect("<LinearParams>")
        linear_params = read_matrix(reader, "<LinearParams>")
        reader.expect("<BiasParams>")
        bias_params = read_vector(reader, "<BiasParams>", linear_params.shape[0])
        reader.expect("</FixedAffineComponent>")
        return cls(linear_params, bias_params)

    def write_body(self, writer: Writer) -> None:
        writer.token("<LinearParams>")
        write_matrix(writer, self.linear_params)
        writer.token("<BiasParams>")
        write_vector(writer, self.bias_params)

    def info(self) -> str:
        return f"{super().info()}{rms('linear-params', self.linear_params)}{mean_stddev('bias', self.bias_params)}"

    def forward(self, x: Tensor, y: Tensor, indexes: None = None) -> None:
        torch.addmm(self.bias_params, x, self.linear_params.t(), out=y)

    def backward(
        self,
        x: Tensor,
        y: Tensor,
        y_deriv: Tensor,
        memo: None,
        to_update: Component | None,
        x_deriv: Tensor | None,
        indexes: None = None,
    ) -> None:
        if x_deriv is not None:
            torch.mm(y_deriv, self.linear_params, out=x_deriv)


@register
class FixedScaleComponent(Component):
    """y = s x, element by element. Constant: scales s (dim)."""

    type_name = "FixedScaleComponent"
    properties = Properties.SIMPLE | Properties.PROPAGATE_IN_PLACE | Properties.BACKPROP_IN_PLACE
    constant_names = ("scales",)

    def __init__(self, scales: Tensor):
        super().__init__()
        self.scales = scales
        self.input_dim = self.output_dim = len(scales)

    @classmethod
    def from_config(cls, line: ConfigLine, rng: RandomSource) -> Self:
        if line.has("scales"):
            return cls(load_vector_key(line, "scales"))
        dim = line.integer("dim", minimum=1)
        return cls(torch.full((dim,), line.number("scale")) if line.has("scale") else rng.normal_tensor(dim))

    @classmethod
    def read(cls, reader: Reader) -> Self:
        reader.expect("<Scales>")
        scales = read_vector(reader, "<Scales>")
        reader.expect("</FixedScaleComponent>")
        return cls(scales)

    def write_body(self, writer: Writer) -> None:
        writer.token("<Scales>")
        write_vector(writer, self.scales)

    def info(self) -> str:
        return f"{super().info()}{mean_stddev('scales', self.scales)}"

    def forward(self, x: Tensor, y: Tensor, indexes: None = None) -> None:
        torch.mul(x, self.scales, out=y)

    def backward(
        self,
        x: Tensor,
        y: Tensor,
        y_deriv: Tensor,
        memo: None,
        to_update: Component | None,
        x_deriv: Tensor | None,
        indexes: None = None,
    ) -> None:
        if x_deriv is not None:
            torch.mul(y_deriv, self.scales, out=x_deriv)


@register
class FixedBiasComponent(Component):
    """y = x + b. Constant: bias b (dim)."""

    type_name = "FixedBiasComponent"
    properties = Properties.SIMPLE | Properties.PROPAGATE_IN_PLACE | Properties.BACKPROP_IN_PLACE
    constant_names = ("bias",)

    def __init__(self, bias: Tensor):
        super().__init__()
        self.bias = bias
        self.input_dim = self.output_dim = len(bias)

    @classmethod
    def from_config(cls, line: ConfigLine, rng: RandomSource) -> Self:
        if line.has("bias"):
            return cls(load_vector_key(line, "bias"))
        return cls(rng.normal_tensor(line.integer("dim", minimum=1)))

    @classmethod
    def read(cls, reader: Reader) -> Self:
        reader.expect("<Bias>")
        bias = read_vector(reader, "<Bias>")
        reader.expect("</FixedBiasComponent>")
        return cls(bias)

    def write_body(self, writer: Writer) -> None:
        writer.token("<Bias>")
        write_vector(writer, self.bias)

    def info(self) -> str:
        return f"{super().info()}{mean_stddev('bias', self.bias)}"

    def forward(self, x: Tensor, y: Tensor, indexes: None = None) -> None:
        torch.add(x, self.bias, out=y)

    def backward(
        self,
        x: Tensor,
        y: Tensor,
        y_deriv: Tensor,
        memo: None,
        to_update: Component | None,
        x_deriv: Tensor | None,
        indexes: None = None,
    ) -> None:
        if x_deriv is not None and x_deriv.data_ptr() != y_deriv.data_ptr():
            x_deriv.copy_(y_deriv)
