"""ConvolutionComponent: 2-D convolution within one row, the older kind."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor
from typing_extensions import Self

from nnet3.base.text import ConfigLine
from nnet3.model.components.base import Deriv, Properties, UpdatableComponent, Updated
from nnet3.model.components.component_types import register
from nnet3.model.components.field_table import Check, Field, Summary, at_most, length_of, mean_stddev, packed, rms
from nnet3.model.components.random_source import RandomSource
from nnet3.model.components.updatable import OLD_IS_GRADIENT
from nnet3.model.components.value_kinds import COUNT, SIZE, MatrixKind, Values, Vector, load_matrix_key

_ORDERS = ("yzx", "zyx")  # numbered so in files


def _fits(axis: str) -> Check:
    """Returns the check that the step of filters leads from the first to the last position of an axis."""

    def check(step: int, values: Values) -> str:
        dim, size = values[f"input_{axis}_dim"], values[f"filt_{axis}_dim"]
        wanted = f"must divide input-{axis}-dim - filt-{axis}-dim = {dim - size}"
        return f"{wanted}, got {step}" if (dim - size) % step else ""

    return check


_SIZES = (
    Field("input_x_dim", SIZE),
    Field("input_y_dim", SIZE),
    Field("input_z_dim", SIZE),
    Field("filt_x_dim", SIZE, check=at_most("input_x_dim")),
    Field("filt_y_dim", SIZE, check=at_most("input_y_dim")),
    Field("filt_x_step", SIZE, check=_fits("x")),
    Field("filt_y_step", SIZE, check=_fits("y")),
)


@dataclass(frozen=True)
class PatchLayout:
    """Sizes of the convolution and where the elements of a patch are in a row."""

    input_x_dim: int
    input_y_dim: int
    input_z_dim: int
    filt_x_dim: int
    filt_y_dim: int
    filt_x_step: int
    filt_y_step: int
    input_vectorization: int  # number in _ORDERS

    @property
    def input_dim(self) -> int:
        return self.input_x_dim * self.input_y_dim * self.input_z_dim

    @property
    def patches(self) -> tuple[int, int]:
        return 1 + (self.input_x_dim - self.filt_x_dim) // self.filt_x_step, 1 + (
            self.input_y_dim - self.filt_y_dim
        ) // self.filt_y_step

    @property
    def patch_dim(self) -> int:
        return self.filt_x_dim * self.filt_y_dim * self.input_z_dim

    @property
    def is_zyx(self) -> bool:
        """True if z moves fastest in a row, then y; else y, then z."""
        return _ORDERS[self.input_vectorization] == "zyx"

    def view(self, matrix: Tensor) -> Tensor:
        """Returns all patches of (rows, input_dim) as a view (rows, patches x, patches y, filter x, filter y, z)."""
        of_x = self.input_y_dim * self.input_z_dim
        of_y, of_z = (self.input_z_dim, 1) if self.is_zyx else (1, self.input_y_dim)
        shape = (matrix.shape[0], *self.patches, self.filt_x_dim, self.filt_y_dim, self.input_z_dim)
        strides = (matrix.stride(0), self.filt_x_step * of_x, self.filt_y_step * of_y, of_x, of_y, of_z)
        return matrix.as_strided(shape, strides)


def _fault_of_order(order: int, values: Values) -> str:
    return "" if order < len(_ORDERS) else f"must be 0 or 1, got {order}"


def _patch_dim(values: Values) -> int:
    return int(values["filt_x_dim"] * values["filt_y_dim"] * values["input_z_dim"])


def _initial_parameters(line: ConfigLine, rng: RandomSource, patch_dim: int) -> tuple[Tensor, Tensor]:
    """Returns W and b, random or from the file named by the key `matrix` (W with b as last column)."""
    if line.has("matrix"):
        matrix = load_matrix_key(line, "matrix")
        if matrix.shape[1] != patch_dim + 1:
            raise line.error(f"the matrix must have {patch_dim + 1} columns, got {matrix.shape[1]}", "matrix")
        return matrix[:, :-1].contiguous(), matrix[:, -1].contiguous()
    num_filters = line.integer("num-filters", minimum=1)
    stddev = line.number("param-stddev", 1.0 / math.sqrt(patch_dim), minimum=0.0)
    filters = rng.normal_tensor(num_filters, patch_dim) * stddev
    return filters, rng.normal_tensor(num_filters) * line.number("bias-stddev", 1.0, minimum=0.0)


@register
class ConvolutionComponent(UpdatableComponent):
    """y[p, k] = b_k + sum over the elements e of patch p of W[k, e] x_e, in column p num_filters + k.

    Parameters: filter_params (num_filters, patch dim), bias_params (num_filters,).
    """

    is_linear = True
    properties = Properties.SIMPLE | Properties.UPDATABLE | Properties.BACKPROP_NEEDS_INPUT
    parameter_names = ("filter_params", "bias_params")

    fields = (
        *_SIZES,
        Field("input_vectorization", COUNT, None, check=_fault_of_order),
        Field("filter_params", MatrixKind(lambda values: (None, _patch_dim(values))), None),
        Field("bias_params", Vector(length_of("filter_params")), None),
        replace(OLD_IS_GRADIENT, saved=True),
    )
    shown = (
        *(field.name for field in _SIZES),
        *("input_vectorization", "num_filters", Summary(rms, "filter_params"), Summary(mean_stddev, "bias_params")),
    )

    def __init__(self, layout: PatchLayout, filter_params: Tensor, bias_params: Tensor) -> None:
        super().__init__()
        self.layout = layout
        self.__dict__.update(asdict(layout))
        self.filter_params = filter_params
        self.bias_params = bias_params
        self.num_filters = len(bias_params)
        self.input_dim = layout.input_dim
        self.output_dim = layout.patches[0] * layout.patches[1] * self.num_filters

    @classmethod
    def initial_values(cls, line: ConfigLine, rng: RandomSource) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for field in _SIZES:
            field.parse(line, values)
        order = line.string("input-vectorization-order", "zyx")
        if order not in _ORDERS:
            raise line.error(f"must be zyx or yzx, got '{order}'", "input-vectorization-order")
        filters, bias = _initial_parameters(line, rng, _patch_dim(values))
        return {**values, "input_vectorization": _ORDERS.index(order), "filter_params": filters, "bias_params": bias}

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Self:
        return super().from_values(packed(values, PatchLayout, "layout"))

    def forward(self, x: Tensor, y: Tensor, indexes: None = None) -> None:
        patches = self._patch_rows(x)
        if y.is_contiguous():
            torch.addmm(self.bias_params, patches, self.filter_params.t(), out=y.view(-1, self.num_filters))
        else:
            y.copy_(torch.addmm(self.bias_params, patches, self.filter_params.t()).view(y.shape))

    def _patch_rows(self, x: Tensor) -> Tensor:
        """Returns one row a patch, (rows * patches, patch dim)."""
        return self.layout.view(x).reshape(-1, self.layout.patch_dim)

    def backward(
        self, x: Tensor, y: Tensor, y_deriv: Tensor, memo: Any, to_update: Updated, x_deriv: Deriv, indexes: Any = None
    ) -> None:
        """g_x: each patch gets g W, where patches overlap the sum; W += lr g^T patches, b += lr sum g"""
        patch_derivs = y_deriv.reshape(-1, self.num_filters)  # (rows * patches, num_filters)
        if x_deriv is not None:
            self._backward_data(patch_derivs, x_deriv)
        if to_update is not None:
            assert isinstance(to_update, ConvolutionComponent)
            rate = to_update.learning_rate
            to_update.filter_params.addmm_(patch_derivs.t(), self._patch_rows(x), alpha=rate)
            to_update.bias_params.add_(patch_derivs.sum(0), alpha=rate)

    def _backward_data(self, patch_derivs: Tensor, x_deriv: Tensor) -> None:
        x_deriv.zero_()
        target = self.layout.view(x_deriv)
        source = torch.mm(patch_derivs, self.filter_params).view(target.shape)
        for x in range(self.layout.filt_x_dim):
            for y in range(self.layout.filt_y_dim):  # one element of every patch at a time: these do not overlap
                target[:, :, :, x, y].add_(source[:, :, :, x, y])
