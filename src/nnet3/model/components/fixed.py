"""Types whose parameters are never trained: FixedAffine, FixedScale, FixedBias; and slices of affine maps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from nnet3.base.native import operations
from nnet3.base.native.fastest import fastest
from nnet3.base.native.operations import Operations
from nnet3.base.native.panels import make_panels, multiply_by_panels, panels_in
from nnet3.base.text import ConfigLine
from nnet3.model.components.base import Component, Properties
from nnet3.model.components.component_types import register
from nnet3.model.components.field_table import Field, Summary, length_of, mean_stddev, rms
from nnet3.model.components.large_products import add_product
from nnet3.model.components.random_source import RandomSource
from nnet3.model.components.value_kinds import MATRIX, VECTOR, Vector, load_matrix_key, load_vector_key

_ROWS_AT_ONCE = 512  # of weights that are transposed: 4,096 x 256 in a quarter of the time of all at once


class AffineSlice:
    """y = x W_c^T + b, or x W_c^T + a for a second input a; W_c are the columns [first, end) of W.

    Every run reads the component's parameters, unless W_c^T, or panels of W_c^T, is one more input. Without inputs it
    writes these. The backward pass computes the derivative of x, and learns nothing. If `goes_backward`, it writes W_c,
    or panels of W_c^T, the second input of the backward pass.
    """

    type_name = "AffineSlice"

    def __init__(
        self, component: Any, matrix: str, bias: str, first: int, end: int, adds: bool, goes_backward: bool
    ) -> None:
        """`matrix` and `bias` name the component's tensors; an empty name is no bias. `adds`: a is added instead."""
        self.output_dim = -1 if goes_backward else component.output_dim
        self._adds, self._goes_backward = adds, goes_backward
        self._component, self._matrix, self._bias = component, matrix, bias
        self._first, self._count = first, end - first

    @property
    def linear_params(self) -> Tensor:
        """W_c, (output_dim, columns)."""
        weights: Tensor = getattr(self._component, self._matrix)
        return weights.narrow(1, self._first, self._count)

    @property
    def bias_params(self) -> Tensor | None:
        """b, (output_dim,); None if there is none."""
        return getattr(self._component, self._bias) if self._bias and not self._adds else None

    def parameters(self) -> dict[str, Tensor]:
        """Returns the tensors that are read, by name."""
        bias = self.bias_params
        return {"linear_params": self.linear_params} | ({} if bias is None else {"bias_params": bias})

    def run_forward(self, inputs: Sequence[Tensor], output: Tensor, indexes: Any) -> None:
        if not inputs:
            weights = self.linear_params.t() if self._goes_backward else self.linear_params
            if _panels_in(output) is not None:
                make_panels(output, weights)
                return
            parts = weights.split(_ROWS_AT_ONCE)
            for weights, rows in zip(parts, output.t().split(_ROWS_AT_ONCE), strict=True):
                rows.copy_(weights)
            return
        packed, addend = self._operands(inputs)
        panels = None if packed is None else _panels_in(packed)
        if panels is not None:
            multiply_by_panels(output, inputs[0], panels, addend, self.output_dim)
            return
        add_product(output, inputs[0], self.linear_params.t() if packed is None else packed, addend)

    def _operands(self, inputs: Sequence[Tensor]) -> tuple[Tensor | None, Tensor | None]:
        """Returns packed weights, None for those of the component, and what is added to the product."""
        packed = inputs[-1] if len(inputs) > 1 + self._adds else None
        return packed, inputs[1] if self._adds else self.bias_params

    @property
    def is_native(self) -> bool:
        native: bool = self._component.is_native
        return native

    def native_forward(self, inputs: Sequence[Tensor], output: Tensor, indexes: Any) -> Operations | None:
        if not inputs:
            return None
        packed, addend = self._operands(inputs)
        panels = None if packed is None else _panels_in(packed)
        if panels is not None:
            return operations.panel_product(output, inputs[0], panels, addend)
        return operations.product(output, inputs[0], self.linear_params if packed is None else packed.t(), addend)

    def run_backward(
        self,
        inputs: Sequence[Tensor],
        output: Tensor,
        output_deriv: Tensor,
        memo: Any,
        to_update: Any,
        input_derivs: Sequence[Tensor],
        accumulate: Sequence[bool],
        indexes: Any,
    ) -> None:
        panels = _panels_in(inputs[1]) if len(inputs) > 1 else None
        if panels is not None:
            multiply_by_panels(input_derivs[0], output_deriv, panels, None, self._count)
        else:
            add_product(input_derivs[0], output_deriv, inputs[1] if len(inputs) > 1 else self.linear_params)

    def replay_state(self) -> list[object] | None:
        state: list[object] | None = self._component.replay_state()
        return state


def _panels_in(matrix: Tensor) -> Tensor | None:
    """Returns a matrix (columns, output_dim) as panels of W_c; None if panels do not fit, or are not fastest."""
    return panels_in(matrix) if fastest().packed == "panels" else None


@register
class FixedAffineComponent(Component):
    """y = x W^T + b. Constants: linear_params W (output_dim, input_dim), bias_params b (output_dim)."""

    properties = Properties.SIMPLE
    constant_names = ("linear_params", "bias_params")
    has_slices = is_linear = True

    fields = (
        Field("linear_params", MATRIX, None),
        Field("bias_params", Vector(length_of("linear_params")), None),
    )
    shown = (Summary(rms, "linear_params"), Summary(mean_stddev, "bias_params", "bias"))

    def __init__(self, linear_params: Tensor, bias_params: Tensor):
        super().__init__()
        self.linear_params, self.bias_params = linear_params, bias_params
        self.output_dim, self.input_dim = linear_params.shape

    @classmethod
    def initial_values(cls, line: ConfigLine, rng: RandomSource) -> dict[str, Any]:
        if line.has("matrix"):
            matrix = load_matrix_key(line, "matrix")
            if matrix.shape[1] < 2:
                raise line.error("'matrix' must have a column more than there are inputs, but has only one", "matrix")
        else:
            input_dim = line.integer("input-dim", minimum=1)
            output_dim = line.integer("output-dim", minimum=1)
            matrix = rng.normal_tensor(output_dim, input_dim + 1)
        return {"linear_params": matrix[:, :-1].contiguous(), "bias_params": matrix[:, -1].contiguous()}

    def slice(self, first: int, end: int, adds: bool, goes_backward: bool) -> AffineSlice:
        return AffineSlice(self, "linear_params", "bias_params", first, end, adds, goes_backward)

    def forward(self, x: Tensor, y: Tensor, indexes: None = None) -> None:
        add_product(y, x, self.linear_params.t(), self.bias_params)

    def fill_deriv(self, x: Tensor, y: Tensor, y_deriv: Tensor, memo: Any, x_deriv: Tensor, indexes: Any) -> None:
        add_product(x_deriv, y_deriv, self.linear_params)


@register
class FixedScaleComponent(Component):
    """y = s x, element by element. Constant: scales s (dim)."""

    is_linear = True
    properties = Properties.SIMPLE | Properties.IN_PLACE
    constant_names = ("scales",)

    fields = (Field("scales", VECTOR, None),)
    shown = (Summary(mean_stddev, "scales"),)

    def __init__(self, scales: Tensor):
        super().__init__()
        self.scales = scales
        self.input_dim = self.output_dim = len(scales)

    @classmethod
    def initial_values(cls, line: ConfigLine, rng: RandomSource) -> dict[str, Any]:
        if line.has("scales"):
            return {"scales": load_vector_key(line, "scales")}
        dim = line.integer("dim", minimum=1)
        return {"scales": torch.full((dim,), line.number("scale")) if line.has("scale") else rng.normal_tensor(dim)}

    def forward(self, x: Tensor, y: Tensor, indexes: None = None) -> None:
        torch.mul(x, self.scales, out=y)

    def fill_deriv(self, x: Tensor, y: Tensor, y_deriv: Tensor, memo: Any, x_deriv: Tensor, indexes: Any) -> None:
        torch.mul(y_deriv, self.scales, out=x_deriv)


@register
class FixedBiasComponent(Component):
    """y = x + b. Constant: bias b (dim)."""

    is_linear = True
    properties = Properties.SIMPLE | Properties.IN_PLACE
    constant_names = ("bias",)

    fields = (Field("bias", VECTOR, None),)
    shown = (Summary(mean_stddev, "bias"),)

    def __init__(self, bias: Tensor):
        super().__init__()
        self.bias = bias
        self.input_dim = self.output_dim = len(bias)

    @classmethod
    def initial_values(cls, line: ConfigLine, rng: RandomSource) -> dict[str, Any]:
        if line.has("bias"):
            return {"bias": load_vector_key(line, "bias")}
        return {"bias": rng.normal_tensor(line.integer("dim", minimum=1))}

    def forward(self, x: Tensor, y: Tensor, indexes: None = None) -> None:
        torch.add(x, self.bias, out=y)

    def fill_deriv(self, x: Tensor, y: Tensor, y_deriv: Tensor, memo: Any, x_deriv: Tensor, indexes: Any) -> None:
        if x_deriv.data_ptr() != y_deriv.data_ptr():
            x_deriv.copy_(y_deriv)
