"""PerElementScaleComponent and NaturalGradientPerElementScaleComponent: y = s o x (components.md 8.1, 8.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from nnet3.components.base import Component, Properties
from nnet3.components.fields import load_vector_key, read_integer, read_number, read_vector, write_vector
from nnet3.components.natural_gradient import OnlineNaturalGradient
from nnet3.components.registry import register
from nnet3.components.summary import format_number, mean_stddev
from nnet3.components.updatable import UpdatableComponent, UpdatableHeader

if TYPE_CHECKING:
    from typing_extensions import Self

    from nnet3.components.random_source import RandomSource
    from nnet3.kaldi_io import Reader, Writer
    from nnet3.text import ConfigLine


@register
class PerElementScaleComponent(UpdatableComponent):
    """Plain gradient. Parameter: params (dim,), the scales."""

    type_name = "PerElementScaleComponent"
    properties = (
        Properties.SIMPLE
        | Properties.UPDATABLE
        | Properties.BACKPROP_NEEDS_INPUT
        | Properties.PROPAGATE_IN_PLACE
        | Properties.BACKPROP_IN_PLACE
    )
    parameter_names = ("params",)

    def __init__(self, params: Tensor) -> None:
        super().__init__()
        self.params = params
        self.input_dim = self.output_dim = len(params)

    @classmethod
    def from_config(cls, line: ConfigLine, rng: RandomSource) -> Self:
        if line.has("vector"):
            params = load_vector_key(line, "vector")
            dim = line.integer("dim", len(params), minimum=1)
            if dim != len(params):
                raise line.error(f"'dim' is {dim}, but the vector has {len(params)} elements", "dim")
        else:
            params = initial_vector(line, rng, line.integer("dim", minimum=1), 1.0)
        component = cls(params)
        component.configure_updatable(line)
        return component

    @classmethod
    def read(cls, reader: Reader) -> Self:
        header = UpdatableHeader.read(reader)
        reader.expect("<Params>")
        component = cls(read_vector(reader, "<Params>"))
        component.copy_header(header)
        component.read_settings(reader)
        reader.expect(f"</{cls.type_name}>")
        return component

    def read_settings(self, reader: Reader) -> None:
        """What stands between the parameters and the closing token."""
        if reader.accept("<IsGradient>"):  # old files
            self.is_gradient = reader.boolean()

    def write_body(self, writer: Writer) -> None:
        self.write_header(writer)
        writer.token("<Params>")
        write_vector(writer, self.params)

    def info(self) -> str:
        least, most = (format_number(float(value)) for value in torch.aminmax(self.params))
        return f"{super().info()}, scales-min={least}, scales-max={most}{mean_stddev('scales', self.params)}"

    def forward(self, x: Tensor, y: Tensor, indexes: Any = None) -> None:
        torch.mul(x, self.params, out=y)

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
        if to_update is not None:  # first, because x_deriv may be the memory of y_deriv
            assert isinstance(to_update, PerElementScaleComponent)
            to_update.update(x * y_deriv)
        if x_deriv is not None:
            torch.mul(y_deriv, self.params, out=x_deriv)

    def update(self, gradients: Tensor) -> None:
        """s += rate sum_n x o g; `gradients` holds the x o g of each row."""
        self.params.add_(gradients.sum(0), alpha=self.learning_rate)


@register
class NaturalGradientPerElementScaleComponent(PerElementScaleComponent):
    """Natural gradient whose directions are the rows x o g. Parameter: params (dim,), the scales."""

    type_name = "NaturalGradientPerElementScaleComponent"
    preconditioner_names = ("preconditioner",)

    def __init__(self, params: Tensor) -> None:
        super().__init__(params)
        self.preconditioner = OnlineNaturalGradient(rank=8, update_period=10)

    @classmethod
    def from_config(cls, line: ConfigLine, rng: RandomSource) -> Self:
        if line.has("scales"):
            params = load_vector_key(line, "scales")
        else:
            params = initial_vector(line, rng, line.integer("dim", minimum=1), 1.0)
        component = cls(params)
        component.configure_updatable(line)
        component.preconditioner = OnlineNaturalGradient(
            rank=line.integer("rank", 8, minimum=1),
            update_period=line.integer("update-period", 10, minimum=1),
            num_samples_history=line.number("num-samples-history", 2000.0, above=0.0),
            alpha=line.number("alpha", 4.0, minimum=0.0),
        )
        return component

    def read_settings(self, reader: Reader) -> None:
        if reader.accept("<IsGradient>"):
            self.is_gradient = reader.boolean()
        reader.expect("<Rank>")
        rank = read_integer(reader, "<Rank>")
        reader.expect("<UpdatePeriod>")
        update_period = read_integer(reader, "<UpdatePeriod>")
        reader.expect("<NumSamplesHistory>")
        history = read_number(reader, "<NumSamplesHistory>", above=0.0)
        reader.expect("<Alpha>")
        alpha = read_number(reader, "<Alpha>")
        self.preconditioner = OnlineNaturalGradient(rank, update_period, history, alpha=alpha)
        if reader.accept("<MaxChangePerMinibatch>"):  # old files
            reader.real()

    def write_body(self, writer: Writer) -> None:
        super().write_body(writer)
        writer.token("<IsGradient>")
        writer.boolean(self.is_gradient)
        writer.token("<Rank>")
        writer.int32(self.preconditioner.rank)
        writer.token("<UpdatePeriod>")
        writer.int32(self.preconditioner.update_period)
        writer.token("<NumSamplesHistory>")
        writer.real(self.preconditioner.num_samples_history)
        writer.token("<Alpha>")
        writer.real(self.preconditioner.alpha)

    def info(self) -> str:
        settings = self.preconditioner
        return (
            f"{super().info()}, rank={settings.rank}, update-period={settings.update_period}"
            f", num-samples-history={format_number(settings.num_samples_history)}"
            f", alpha={format_number(settings.alpha)}"
        )

    def update(self, gradients: Tensor) -> None:
        """s += rate c sum_n of the rows of E' with (E', c) = PD(X o G)."""
        rate = self.learning_rate
        if not self.is_gradient:
            gradients, scale = self.preconditioner.precondition(gradients)
            rate *= float(scale)
        self.params.add_(gradients.sum(0), alpha=rate)


def initial_vector(line: ConfigLine, rng: RandomSource, dim: int, mean: float, prefix: str = "param") -> Tensor:
    """Normal numbers (dim,) by the keys PREFIX-mean (its default is `mean`) and PREFIX-stddev (0)."""
    mean = line.number(f"{prefix}-mean", mean)
    return rng.normal_tensor(dim) * line.number(f"{prefix}-stddev", 0.0, minimum=0.0) + mean
