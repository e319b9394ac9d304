"""NoOpComponent (components.md 4.6)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from nnet3.components.base import Component, Properties
from nnet3.components.fields import read_integer
from nnet3.components.random_source import RandomSource
from nnet3.components.registry import register
from nnet3.components.summary import format_number

if TYPE_CHECKING:
    from typing_extensions import Self

    from nnet3.kaldi_io import Reader, Writer
    from nnet3.text import ConfigLine


@register
class NoOpComponent(Component):
    """y = x; the derivative is multiplied by backprop_scale."""

    type_name = "NoOpComponent"
    properties = Properties.SIMPLE | Properties.PROPAGATE_IN_PLACE | Properties.BACKPROP_IN_PLACE

    def __init__(self, dim: int, backprop_scale: float = 1.0):
        super().__init__()
        self.input_dim = self.output_dim = dim
        self.backprop_scale = backprop_scale

    @classmethod
    def from_config(cls, line: ConfigLine, rng: RandomSource) -> Self:
        return cls(line.integer("dim", minimum=1), line.number("backprop-scale", 1.0))

    @classmethod
    def read(cls, reader: Reader) -> Self:
        reader.expect("<Dim>")
        dim = read_integer(reader, "<Dim>")
        if reader.accept("<BackpropScale>"):
            component = cls(dim, reader.real())
        else:
            component = cls(dim)
            _skip_statistics_of_old_file(reader)
        reader.expect("</NoOpComponent>")
        return component

    def write_body(self, writer: Writer) -> None:
        writer.token("<Dim>")
        writer.int32(self.input_dim)
        writer.token("<BackpropScale>")
        writer.real(self.backprop_scale)

    def info(self) -> str:
        text = f"{self.type_name}, dim={self.input_dim}"
        if self.backprop_scale != 1.0:
            text += f", backprop-scale={format_number(self.backprop_scale)}"
        return text

    def forward(self, x: Tensor, y: Tensor, indexes: None = None) -> None:
        if y.data_ptr() != x.data_ptr():
            y.copy_(x)

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
        if x_deriv is None:
            return
        if self.backprop_scale != 1.0:
            torch.mul(y_deriv, self.backprop_scale, out=x_deriv)
        elif x_deriv.data_ptr() != y_deriv.data_ptr():
            x_deriv.copy_(y_deriv)


def _skip_statistics_of_old_file(reader: Reader) -> None:
    """What a nonlinearity keeps: old versions derived this type from it."""
    reader.expect("<ValueAvg>")
    reader.vector()
    reader.expect("<DerivAvg>")
    reader.vector()
    reader.expect("<Count>")
    reader.real()
    if reader.accept("<OderivRms>"):
        reader.vector()
        reader.expect("<OderivCount>")
        reader.real()
    for token in ("<NumDimsSelfRepaired>", "<NumDimsProcessed>"):
        if reader.accept(token):
            reader.real()
