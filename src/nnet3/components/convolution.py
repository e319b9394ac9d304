"""ConvolutionComponent: 2-D convolution within one row, the older kind (components.md 11.1)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from nnet3.components.base import Component, Properties
from nnet3.components.fields import (
    load_matrix_key,
    read_integer,
    read_matrix,
    read_vector,
    write_matrix,
    write_vector,
)
from nnet3.components.registry import register
from nnet3.components.summary import mean_stddev, rms
from nnet3.components.updatable import UpdatableComponent, UpdatableHeader

if TYPE_CHECKING:
    from typing_extensions import Self

    from nnet3.components.random_source import RandomSource
    from nnet3.kaldi_io import Reader, Writer
    from nnet3.text import ConfigLine

_TOKENS = ("<InputXDim>", "<InputYDim>", "<InputZDim>", "<FiltXDim>", "<FiltYDim>", "<FiltXStep>", "<FiltYStep>")
_KEYS = ("input-x-dim", "input-y-dim", "input-z-dim", "filt-x-dim", "filt-y-dim", "filt-x-step", "filt-y-step")
_ORDERS = ("yzx", "zyx")  # numbered so in files


@dataclass(frozen=True)
class PatchLayout:
    """Sizes of the convolution and where the elements of a patch are in a row."""

    is_zyx: bool
    x_dim: int
    y_dim: int
    z_dim: int
    filter_x: int
    filter_y: int
    step_x: int
    step_y: int

    @property
    def sizes(self) -> tuple[int, ...]:
        """The seven numbers in the order of the file."""
        dims = (self.x_dim, self.y_dim, self.z_dim)
        return (*dims, self.filter_x, self.filter_y, self.step_x, self.step_y)

    @property
    def input_dim(self) -> int:
        return self.x_dim * self.y_dim * self.z_dim

    @property
    def patches(self) -> tuple[int, int]:
        return 1 + (self.x_dim - self.filter_x) // self.step_x, 1 + (self.y_dim - self.filter_y) // self.step_y

    @property
    def patch_dim(self) -> int:
        return self.filter_x * self.filter_y * self.z_dim

    def misfit(self) -> tuple[str, str] | None:
        """A config key and what is wrong with its value, if anything is."""
        for axis, dim, size, step in (
            ("x", self.x_dim, self.filter_x, self.step_x),
            ("y", self.y_dim, self.filter_y, self.step_y),
        ):
            if size > dim:
                return f"filt-{axis}-dim", f"must be <= input-{axis}-dim ({dim}), got {size}"
            if (dim - size) % step:
                wanted = f"must divide input-{axis}-dim - filt-{axis}-dim = {dim - size}"
                return f"filt-{axis}-step", f"{wanted}, got {step}"
        return None

    def view(self, matrix: Tensor) -> Tensor:
        """All patches of a matrix (rows, input_dim) as a view (rows, patches x, patches y, filter x, filter y, z)."""
        of_x = self.y_dim * self.z_dim
        of_y, of_z = (self.z_dim, 1) if self.is_zyx else (1, self.y_dim)
        shape = (matrix.shape[0], *self.patches, self.filter_x, self.filter_y, self.z_dim)
        strides = (matrix.stride(0), self.step_x * of_x, self.step_y * of_y, of_x, of_y, of_z)
        return matrix.as_strided(shape, strides)


@register
class ConvolutionComponent(UpdatableComponent):
    """y[p, k] = b_k + sum over the elements e of patch p of W[k, e] x_e, in column p num_filters + k.

    Parameters: filter_params (num_filters, patch dim), bias_params (num_filters,).
    """

    type_name = "ConvolutionComponent"
    properties = Properties.SIMPLE | Properties.UPDATABLE | Properties.BACKPROP_NEEDS_INPUT
    parameter_names = ("filter_params", "bias_params")

    def __init__(self, layout: PatchLayout, filter_params: Tensor, bias_params: Tensor) -> None:
        super().__init__()
        self.layout = layout
        self.filter_params = filter_params
        self.bias_params = bias_params
        self.num_filters = len(bias_params)
        self.input_dim = layout.input_dim
        self.output_dim = layout.patches[0] * layout.patches[1] * self.num_filters

    # ---- configuration and files ----

    @classmethod
    def from_config(cls, line: ConfigLine, rng: RandomSource) -> Self:
        sizes = [line.integer(key, minimum=1) for key in _KEYS]
        order = line.string("input-vectorization-order", "zyx")
        if order not in _ORDERS:
            raise line.error(f"must be zyx or yzx, got '{order}'", "input-vectorization-order")
        layout = PatchLayout(order == "zyx", *sizes)
        misfit = layout.misfit()
        if misfit:
            raise line.error(f"'{misfit[0]}' {misfit[1]}", misfit[0])
        if line.has("matrix"):
            matrix = load_matrix_key(line, "matrix")
            columns = layout.patch_dim + 1
            if matrix.shape[1] != columns:
                raise line.error(f"the matrix must have {columns} columns, got {matrix.shape[1]}", "matrix")
            filters, bias = matrix[:, :-1].contiguous(), matrix[:, -1].contiguous()
        else:
            num_filters = line.integer("num-filters", minimum=1)
            stddev = line.number("param-stddev", 1.0 / math.sqrt(layout.patch_dim), minimum=0.0)
            bias_stddev = line.number("bias-stddev", 1.0, minimum=0.0)
            filters = rng.normal_tensor(num_filters, layout.patch_dim) * stddev
            bias = rng.normal_tensor(num_filters) * bias_stddev
        component = cls(layout, filters, bias)
        component.configure_updatable(line)
        return component

    @classmethod
    def read(cls, reader: Reader) -> Self:
        header = UpdatableHeader.read(reader)
        sizes = []
        for token in _TOKENS:
            reader.expect(token)
            sizes.append(read_integer(reader, token))
        reader.expect("<InputVectorization>")
        order = read_integer(reader, "<InputVectorization>", minimum=0)
        if order > 1:
            raise reader.error(f"<InputVectorization> must be 0 or 1, got {order}")
        layout = PatchLayout(order == 1, *sizes)
        misfit = layout.misfit()
        if misfit:
            raise reader.error(f"{misfit[0]} {misfit[1]}")
        reader.expect("<FilterParams>")
        filters = read_matrix(reader, "<FilterParams>", columns=layout.patch_dim)
        reader.expect("<BiasParams>")
        component = cls(layout, filters, read_vector(reader, "<BiasParams>", len(filters)))
        component.copy_header(header)
        if reader.accept("<IsGradient>"):
            component.is_gradient = reader.boolean()
        reader.expect("</ConvolutionComponent>")
        return component

    def write_body(self, writer: Writer) -> None:
        self.write_header(writer)
        for token, size in zip(_TOKENS, self.layout.sizes, strict=True):
            writer.token(token)
            writer.int32(size)
        writer.token("<InputVectorization>")
        writer.int32(int(self.layout.is_zyx))
        writer.token("<FilterParams>")
        write_matrix(writer, self.filter_params)
        writer.token("<BiasParams>")
        write_vector(writer, self.bias_params)
        writer.token("<IsGradient>")
        writer.boolean(self.is_gradient)

    def info(self) -> str:
        sizes = "".join(f", {key}={size}" for key, size in zip(_KEYS, self.layout.sizes, strict=True))
        text = f"{super().info()}{sizes}, input-vectorization={int(self.layout.is_zyx)}, num-filters={self.num_filters}"
        return text + rms("filter-params", self.filter_params) + mean_stddev("bias-params", self.bias_params)

    # ---- arithmetic ----

    def forward(self, x: Tensor, y: Tensor, indexes: None = None) -> None:
        patches = self._patch_rows(x)
        if y.is_contiguous():
            torch.addmm(self.bias_params, patches, self.filter_params.t(), out=y.view(-1, self.num_filters))
        else:
            y.copy_(torch.addmm(self.bias_params, patches, self.filter_params.t()).view(y.shape))

    def _patch_rows(self, x: Tensor) -> Tensor:
        """One row a patch, (rows * patches, patch dim)."""
        return self.layout.view(x).reshape(-1, self.layout.patch_dim)

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
        for x in range(self.layout.filter_x):
            for y in range(self.layout.filter_y):  # one element of every patch at a time: these do not overlap
                target[:, :, :, x, y].add_(source[:, :, :, x, y])
