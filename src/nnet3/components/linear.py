"""LinearComponent: y = x W^T, with natural gradient (components.md 7.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from nnet3.components.affine import check_dims_of_matrix, initial_linear
from nnet3.components.base import Component, Properties
from nnet3.components.fields import load_matrix_key, read_integer, read_matrix, read_number, write_matrix
from nnet3.components.natural_gradient_pair import NaturalGradientPair
from nnet3.components.natural_gradient_product import add_natural_gradient
from nnet3.components.registry import register
from nnet3.components.summary import rms, row_and_column_norms
from nnet3.components.updatable import UpdatableHeader

if TYPE_CHECKING:
    from typing_extensions import Self

    from nnet3.components.random_source import RandomSource
    from nnet3.kaldi_io import Reader, Writer
    from nnet3.text import ConfigLine


@register
class LinearComponent(NaturalGradientPair):
    """No bias. Parameter: params (output_dim, input_dim).

    As in Kaldi, `use_natural_gradient` is read and written but changes nothing: only a gradient copy updates plainly.
    """

    type_name = "LinearComponent"
    properties = Properties.SIMPLE | Properties.UPDATABLE | Properties.BACKPROP_NEEDS_INPUT
    parameter_names = ("params",)

    def __init__(self, params: Tensor) -> None:
        super().__init__()
        self.params = params
        self.output_dim, self.input_dim = params.shape
        self.use_natural_gradient = True
        self.set_natural_gradient()

    @classmethod
    def from_config(cls, line: ConfigLine, rng: RandomSource) -> Self:
        if line.has("matrix"):
            params = load_matrix_key(line, "matrix")
            check_dims_of_matrix(line, input_dim=params.shape[1], output_dim=params.shape[0])
        else:
            params = initial_linear(line, rng)
        component = cls(params)
        component.configure_updatable(line)
        component.configure_orthonormal(line)
        component.configure_natural_gradient(line)
        component.use_natural_gradient = line.boolean("use-natural-gradient", True)
        return component

    @classmethod
    def read(cls, reader: Reader) -> Self:
        header = UpdatableHeader.read(reader)
        reader.expect("<Params>")
        component = cls(read_matrix(reader, "<Params>"))
        component.copy_header(header)
        component.read_orthonormal(reader)
        reader.expect("<UseNaturalGradient>")
        component.use_natural_gradient = reader.boolean()
        reader.expect("<RankInOut>")
        rank_in, rank_out = read_integer(reader, "<RankInOut>"), read_integer(reader, "<RankInOut>")
        reader.expect("<Alpha>")
        alpha = read_number(reader, "<Alpha>")
        reader.expect("<NumSamplesHistory>")
        history = read_number(reader, "<NumSamplesHistory>", above=0.0)
        reader.expect("<UpdatePeriod>")
        update_period = read_integer(reader, "<UpdatePeriod>")
        component.set_natural_gradient(rank_in, rank_out, update_period, history, alpha)
        reader.expect("</LinearComponent>")
        return component

    def write_body(self, writer: Writer) -> None:
        self.write_header(writer)
        writer.token("<Params>")
        write_matrix(writer, self.params)
        self.write_orthonormal(writer)
        writer.token("<UseNaturalGradient>")
        writer.boolean(self.use_natural_gradient)
        writer.token("<RankInOut>")
        writer.int32(self.preconditioner_in.rank)
        writer.int32(self.preconditioner_out.rank)
        writer.token("<Alpha>")
        writer.real(self.preconditioner_in.alpha)
        writer.token("<NumSamplesHistory>")
        writer.real(self.preconditioner_in.num_samples_history)
        writer.token("<UpdatePeriod>")
        writer.int32(self.preconditioner_in.update_period)

    def info(self) -> str:
        return (
            super().info()
            + rms("params", self.params)
            + row_and_column_norms("params", self.params)
            + self.orthonormal_info()
            + f", use-natural-gradient={str(self.use_natural_gradient).lower()}"
            + self.natural_gradient_info()
        )

    def forward(self, x: Tensor, y: Tensor, indexes: Any = None) -> None:
        torch.mm(x, self.params.t(), out=y)

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
            torch.mm(y_deriv, self.params, out=x_deriv)
        if to_update is not None:
            assert isinstance(to_update, LinearComponent)
            to_update.update(x, y_deriv)

    def update(self, x: Tensor, y_deriv: Tensor) -> None:
        """W += rate s1 s2 G'^T X' with (X', s1) = PD(X), (G', s2) = PD(G)."""
        if self.is_gradient:
            self.params.addmm_(y_deriv.t(), x, alpha=self.learning_rate)
            return
        add_natural_gradient(
            self.params, None, self.learning_rate, x, self.preconditioner_in, y_deriv, self.preconditioner_out
        )
