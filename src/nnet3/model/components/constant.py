"""ConstantFunctionComponent and ConstantComponent: y = c, with and without an input."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from torch import Tensor

from nnet3.base.text import ConfigLine
from nnet3.model.components.base import Component, Deriv, Properties, UpdatableComponent, Updated
from nnet3.model.components.component_types import register
from nnet3.model.components.field_table import Field, Summary, mean_stddev
from nnet3.model.components.natural_gradient import OnlineNaturalGradient
from nnet3.model.components.per_element import initial_vector
from nnet3.model.components.random_source import RandomSource
from nnet3.model.components.value_kinds import BOOLEAN, SIZE, VECTOR


def _type_name(component: Component) -> str:
    return f", {component.type_name}"


class _ConstantOutput(UpdatableComponent):
    """A component with the vector `output` as every output row, a parameter if `is_updatable`."""

    parameter_names = ("output",)
    preconditioner_names = ("preconditioner",)
    can_freeze = False

    fields: ClassVar[tuple[Field, ...]] = (
        Field("output", VECTOR, None),
        Field("is_updatable", BOOLEAN, default=True),
        Field("use_natural_gradient", BOOLEAN, default=True),
    )

    def __init__(self, output: Tensor, is_updatable: bool = True, use_natural_gradient: bool = True) -> None:
        super().__init__()
        self.output = output
        self.output_dim = len(output)
        self.is_updatable = is_updatable
        self.use_natural_gradient = use_natural_gradient
        self.preconditioner = OnlineNaturalGradient()

    def parameters(self) -> dict[str, Tensor]:
        return super().parameters() if self.is_updatable else {}

    @classmethod
    def initial_values(cls, line: ConfigLine, rng: RandomSource) -> dict[str, Any]:
        return {"output": initial_vector(line, rng, line.integer("output-dim", minimum=1), 0.0, "output")}

    def forward(self, x: Tensor, y: Tensor, indexes: Any = None) -> None:
        y.copy_(self.output.expand_as(y))

    def backward(
        self, x: Tensor, y: Tensor, y_deriv: Tensor, memo: Any, to_update: Updated, x_deriv: Deriv, indexes: Any = None
    ) -> None:
        if x_deriv is not None:
            x_deriv.zero_()
        if to_update is not None and self.is_updatable:
            assert isinstance(to_update, _ConstantOutput)
            to_update.update(y_deriv)

    def update(self, y_deriv: Tensor) -> None:
        """c += rate k sum of the rows of G', with (G', k) = PD(G)."""
        self.add_rows(self.output, y_deriv, self.preconditioner if self.use_natural_gradient else None)


@register
class ConstantFunctionComponent(_ConstantOutput):
    """Needs an input, and ignores the input's values. Parameter, if `is_updatable`: output (output_dim,)."""

    fields = (Field("input_dim", SIZE), *_ConstantOutput.fields)
    shown = (
        _type_name,
        "input_dim",
        "output_dim",
        "is_updatable",
        "use_natural_gradient",
        Summary(mean_stddev, "output"),
    )

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


@register
class ConstantComponent(_ConstantOutput):
    """Needs no input: every output index is computable, and `input_dim` is just output_dim.

    Parameter, if `is_updatable`: output (output_dim,).
    """

    identity_indexes = False
    rules_period = 1

    shown = (_type_name, "output_dim", "is_updatable", "use_natural_gradient", Summary(mean_stddev, "output"))

    def __init__(self, output: Tensor, is_updatable: bool = True, use_natural_gradient: bool = True) -> None:
        super().__init__(output, is_updatable, use_natural_gradient)
        self.input_dim = self.output_dim

    @property
    def properties(self) -> Properties:  # type: ignore[override]
        return Properties.UPDATABLE if self.is_updatable else Properties.NONE

    def wanted_inputs(self, outputs: np.ndarray) -> np.ndarray:
        return np.empty((len(outputs), 0, 3), outputs.dtype)
