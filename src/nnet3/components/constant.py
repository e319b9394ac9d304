"""ConstantFunctionComponent and ConstantComponent: y = c, with and without an input (components.md 8.5, 8.6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from nnet3.components.base import Component, Properties
from nnet3.components.fields import read_integer, read_vector, write_vector
from nnet3.components.natural_gradient import OnlineNaturalGradient
from nnet3.components.per_element_scale import initial_vector
from nnet3.components.registry import register
from nnet3.components.summary import mean_stddev
from nnet3.components.updatable import UpdatableComponent, UpdatableHeader

if TYPE_CHECKING:
    from typing_extensions import Self

    from nnet3.components.random_source import RandomSource
    from nnet3.kaldi_io import Reader, Writer
    from nnet3.text import ConfigLine


class _ConstantOutput(UpdatableComponent):
    """What both types have: each output row is the vector `output`, which is a parameter if `is_updatable`."""

    parameter_names = ("output",)
    preconditioner_names = ("preconditioner",)

    def __init__(self, output: Tensor, is_updatable: bool = True, use_natural_gradient: bool = True) -> None:
        super().__init__()
        self.output = output
        self.output_dim = len(output)
        self.is_updatable = is_updatable
        self.use_natural_gradient = use_natural_gradient
        self.preconditioner = OnlineNaturalGradient()

    def parameters(self) -> dict[str, Tensor]:
        return super().parameters() if self.is_updatable else {}

    def configure(self, line: ConfigLine) -> None:
        self.configure_updatable(line)
        self.is_updatable = line.boolean("is-updatable", True)
        self.use_natural_gradient = line.boolean("use-natural-gradient", True)

    def read_settings(self, reader: Reader) -> None:
        """What stands behind the output, the closing token included."""
        reader.expect("<IsUpdatable>")
        self.is_updatable = reader.boolean()
        reader.expect("<UseNaturalGradient>")
        self.use_natural_gradient = reader.boolean()
        reader.expect(f"</{self.type_name}>")

    def write_body(self, writer: Writer) -> None:
        self.write_header(writer)
        self.write_dims(writer)
        writer.token("<Output>")
        write_vector(writer, self.output)
        writer.token("<IsUpdatable>")
        writer.boolean(self.is_updatable)
        writer.token("<UseNaturalGradient>")
        writer.boolean(self.use_natural_gradient)

    def write_dims(self, writer: Writer) -> None:
        """What stands before the output."""

    def settings_info(self) -> str:
        return (
            f"output-dim={self.output_dim}, is-updatable={str(self.is_updatable).lower()}"
            f", use-natural-gradient={str(self.use_natural_gradient).lower()}{mean_stddev('output', self.output)}"
        )

    def forward(self, x: Tensor, y: Tensor, indexes: Any = None) -> None:
        y.copy_(self.output.expand_as(y))

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
            x_deriv.zero_()
        if to_update is not None and self.is_updatable:
            assert isinstance(to_update, _ConstantOutput)
            to_update.update(y_deriv)

    def update(self, y_deriv: Tensor) -> None:
        """c += rate k sum of the rows of G', with (G', k) = PD(G)."""
        rate = self.learning_rate
        if self.use_natural_gradient and not self.is_gradient:
            y_deriv, scale = self.preconditioner.precondition(y_deriv)
            rate *= float(scale)
        self.output.add_(y_deriv.sum(0), alpha=rate)


@register
class ConstantFunctionComponent(_ConstantOutput):
    """The input's values are ignored, but there must be one. Parameter, if `is_updatable`: output (output_dim,)."""

    type_name = "ConstantFunctionComponent"

    def __init__(
        self, output: Tensor, input_dim: int, is_updatable: bool = True, use_natural_gradient: bool = True
    ) -> None:
        super().__init__(output, is_updatable, use_natural_gradient)
        self.input_dim = input_dim

    @property
    def properties(self) -> Properties:  # type: ignore[override]
        properties = Properties.SIMPLE
        if self.is_updatable:
            properties |= Properties.UPDATABLE
        if self.input_dim == self.output_dim:
            properties |= Properties.PROPAGATE_IN_PLACE
        return properties

    @classmethod
    def from_config(cls, line: ConfigLine, rng: RandomSource) -> Self:
        output = initial_vector(line, rng, line.integer("output-dim", minimum=1), 0.0, "output")
        component = cls(output, line.integer("input-dim", minimum=1))
        component.configure(line)
        return component

    @classmethod
    def read(cls, reader: Reader) -> Self:
        header = UpdatableHeader.read(reader)
        reader.expect("<InputDim>")
        input_dim = read_integer(reader, "<InputDim>")
        reader.expect("<Output>")
        component = cls(read_vector(reader, "<Output>"), input_dim)
        component.copy_header(header)
        component.read_settings(reader)
        return component

    def write_dims(self, writer: Writer) -> None:
        writer.token("<InputDim>")
        writer.int32(self.input_dim)

    def info(self) -> str:
        return f"{super().info()}, {self.type_name}, input-dim={self.input_dim}, {self.settings_info()}"


@register
class ConstantComponent(_ConstantOutput):
    """Needs no input: every output index is computable, and `input_dim` is just output_dim.

    Parameter, if `is_updatable`: output (output_dim,).
    """

    type_name = "ConstantComponent"
    identity_indexes = False

    def __init__(self, output: Tensor, is_updatable: bool = True, use_natural_gradient: bool = True) -> None:
        super().__init__(output, is_updatable, use_natural_gradient)
        self.input_dim = self.output_dim

    @property
    def properties(self) -> Properties:  # type: ignore[override]
        return Properties.UPDATABLE if self.is_updatable else Properties.NONE

    @classmethod
    def from_config(cls, line: ConfigLine, rng: RandomSource) -> Self:
        component = cls(initial_vector(line, rng, line.integer("output-dim", minimum=1), 0.0, "output"))
        component.configure(line)
        return component

    @classmethod
    def read(cls, reader: Reader) -> Self:
        header = UpdatableHeader.read(reader)
        reader.expect("<Output>")
        component = cls(read_vector(reader, "<Output>"))
        component.copy_header(header)
        component.read_settings(reader)
        return component

    def info(self) -> str:
        return f"{super().info()}, {self.type_name}, {self.settings_info()}"

    def wanted_inputs(self, outputs: np.ndarray) -> np.ndarray:
        return np.empty((len(outputs), 0, 3), outputs.dtype)
