"""y = x W^T + b: AffineComponent, NaturalGradientAffineComponent, and LinearComponent, which has no bias."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
from torch import Tensor

from nnet3.base.kaldi_io.reader import Reader
from nnet3.base.native import operations
from nnet3.base.native.operations import Operations
from nnet3.base.text import ConfigLine
from nnet3.model.components.base import Component, Deriv, Properties, Updated
from nnet3.model.components.component_types import register
from nnet3.model.components.field_table import (
    Field,
    Shown,
    Summary,
    length_of,
    mean_stddev,
    obsolete,
    rms,
    row_and_column_norms,
)
from nnet3.model.components.fixed import AffineSlice, FixedAffineComponent
from nnet3.model.components.large_products import add_product
from nnet3.model.components.low_precision import low_precision
from nnet3.model.components.random_source import RandomSource
from nnet3.model.components.updatable import (
    ALPHA,
    NUM_SAMPLES_HISTORY,
    OLD_IS_GRADIENT,
    ORTHONORMAL,
    RANK_IN,
    RANK_OUT,
    RANKS_IN_ONE,
    UPDATE_PERIOD_OF_PAIR,
    NaturalGradientPair,
    OrthonormalComponent,
)
from nnet3.model.components.value_kinds import BOOLEAN, MATRIX, REAL, Vector, load_matrix_key


@register
class AffineComponent(OrthonormalComponent):
    """Plain gradient. Parameters: linear_params (output_dim, input_dim), bias_params (output_dim,)."""

    properties = Properties.SIMPLE | Properties.UPDATABLE | Properties.BACKPROP_NEEDS_INPUT
    parameter_names = ("linear_params", "bias_params")
    is_affine = True
    has_slices = is_linear = True

    fields: ClassVar[tuple[Field, ...]] = (
        Field("linear_params", MATRIX, None),
        Field("bias_params", Vector(length_of("linear_params")), None),
        OLD_IS_GRADIENT,
        ORTHONORMAL,
    )
    shown: ClassVar[Shown] = (
        "orthonormal_constraint",
        Summary(rms, "linear_params"),
        Summary(row_and_column_norms, "linear_params"),
        Summary(mean_stddev, "bias_params", "bias"),
    )

    def __init__(self, linear_params: Tensor, bias_params: Tensor) -> None:
        super().__init__()
        self.linear_params = linear_params
        self.bias_params = bias_params
        self.output_dim, self.input_dim = linear_params.shape

    @classmethod
    def initial_values(cls, line: ConfigLine, rng: RandomSource) -> dict[str, Any]:
        linear, bias = initial_affine(line, rng, 0.0)
        return {"linear_params": linear, "bias_params": bias}

    def as_fixed(self) -> FixedAffineComponent:
        return FixedAffineComponent(self.linear_params.clone(), self.bias_params.clone())

    def in_low_precision(self, products: torch.dtype) -> Component | None:
        return low_precision(products, self.linear_params, self.bias_params)

    def slice(self, first: int, end: int, adds: bool, goes_backward: bool) -> AffineSlice:
        return AffineSlice(self, "linear_params", "bias_params", first, end, adds, goes_backward)

    def forward(self, x: Tensor, y: Tensor, indexes: Any = None) -> None:
        add_product(y, x, self.linear_params.t(), self.bias_params)

    def native(self, x: Tensor, y: Tensor) -> Operations | None:
        return operations.product(y, x, self.linear_params, self.bias_params)

    def backward(
        self, x: Tensor, y: Tensor, y_deriv: Tensor, memo: Any, to_update: Updated, x_deriv: Deriv, indexes: Any = None
    ) -> None:
        if x_deriv is not None:
            add_product(x_deriv, y_deriv, self.linear_params)
        if to_update is not None:
            assert isinstance(to_update, AffineComponent)
            to_update.update(x, y_deriv)

    def update(self, x: Tensor, y_deriv: Tensor) -> None:
        """W += rate G^T X, b += rate sum_n g."""
        add_product(self.linear_params, y_deriv.t(), x, self.linear_params, self.learning_rate)
        self.bias_params.add_(y_deriv.sum(0), alpha=self.learning_rate)


@register
class NaturalGradientAffineComponent(NaturalGradientPair, AffineComponent):
    """Natural gradient for input rows (with a one appended) and output derivatives.

    Parameters: linear_params (output_dim, input_dim), bias_params (output_dim,).
    """

    fields = (
        *AffineComponent.fields[:2],
        RANK_IN,
        RANK_OUT,
        ORTHONORMAL,
        UPDATE_PERIOD_OF_PAIR,
        NUM_SAMPLES_HISTORY,
        ALPHA,
        *obsolete(REAL, "<MaxChangePerSample>"),
        OLD_IS_GRADIENT,
        *obsolete(REAL, "<UpdateCount>", "<ActiveScalingCount>", "<MaxChangeScaleStats>"),
    )
    shown = (*AffineComponent.shown, *NaturalGradientPair.natural_gradient_shown)

    def __init__(self, linear_params: Tensor, bias_params: Tensor) -> None:
        super().__init__(linear_params, bias_params)
        self.set_natural_gradient()

    @classmethod
    def initial_values(cls, line: ConfigLine, rng: RandomSource) -> dict[str, Any]:
        bias_mean = 0.0 if line.has("matrix") else line.number("bias-mean", 0.0)
        linear, bias = initial_affine(line, rng, bias_mean)
        return {"linear_params": linear, "bias_params": bias}

    @classmethod
    def read_end(cls, reader: Reader) -> None:
        closing = reader.token()
        if not closing.endswith("NaturalGradientAffineComponent>"):
            raise reader.error(f"expected </NaturalGradientAffineComponent>, got '{closing}'")

    def update(self, x: Tensor, y_deriv: Tensor) -> None:
        """W += rate s1 s2 G'^T X', b += rate s1 s2 G'^T x' with ([X' x'], s1) = PD([X 1]), (G', s2) = PD(G)."""
        if self.is_gradient:
            super().update(x, y_deriv)
            return
        self.learn(self.linear_params, self.bias_params, x, y_deriv)


def initial_affine(line: ConfigLine, rng: RandomSource, bias_mean: float) -> tuple[Tensor, Tensor]:
    """Returns W and b, random or from the file named by the key `matrix` (W with b as last column)."""
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
    """Draws normal numbers (output-dim / output_blocks, input-dim / input_blocks), deviation `param-stddev`."""
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


@register
class LinearComponent(NaturalGradientPair):
    """No bias. Parameter: params (output_dim, input_dim).

    As in Kaldi, `use_natural_gradient` is read and written but changes nothing: only a gradient copy updates plainly.
    """

    properties = Properties.SIMPLE | Properties.UPDATABLE | Properties.BACKPROP_NEEDS_INPUT
    parameter_names = ("params",)
    has_slices = is_linear = True

    fields = (
        Field("params", MATRIX, None),
        ORTHONORMAL,
        Field("use_natural_gradient", BOOLEAN, default=True),
        *RANKS_IN_ONE,
        ALPHA,
        NUM_SAMPLES_HISTORY,
        UPDATE_PERIOD_OF_PAIR,
    )
    shown = (
        Summary(rms, "params"),
        Summary(row_and_column_norms, "params"),
        "orthonormal_constraint",
        "use_natural_gradient",
        *NaturalGradientPair.natural_gradient_shown,
    )

    def __init__(self, params: Tensor) -> None:
        super().__init__()
        self.params = params
        self.output_dim, self.input_dim = params.shape
        self.use_natural_gradient = True
        self.set_natural_gradient()

    @classmethod
    def initial_values(cls, line: ConfigLine, rng: RandomSource) -> dict[str, Any]:
        if not line.has("matrix"):
            return {"params": initial_linear(line, rng)}
        params = load_matrix_key(line, "matrix")
        check_dims_of_matrix(line, input_dim=params.shape[1], output_dim=params.shape[0])
        return {"params": params}

    def in_low_precision(self, products: torch.dtype) -> Component | None:
        return low_precision(products, self.params)

    def slice(self, first: int, end: int, adds: bool, goes_backward: bool) -> AffineSlice:
        return AffineSlice(self, "params", "", first, end, adds, goes_backward)

    def forward(self, x: Tensor, y: Tensor, indexes: Any = None) -> None:
        add_product(y, x, self.params.t())

    def native(self, x: Tensor, y: Tensor) -> Operations | None:
        return operations.product(y, x, self.params, None)

    def backward(
        self, x: Tensor, y: Tensor, y_deriv: Tensor, memo: Any, to_update: Updated, x_deriv: Deriv, indexes: Any = None
    ) -> None:
        if x_deriv is not None:
            add_product(x_deriv, y_deriv, self.params)
        if to_update is not None:
            assert isinstance(to_update, LinearComponent)
            to_update.update(x, y_deriv)

    def update(self, x: Tensor, y_deriv: Tensor) -> None:
        """W += rate s1 s2 G'^T X' with (X', s1) = PD(X), (G', s2) = PD(G)."""
        if self.is_gradient:
            add_product(self.params, y_deriv.t(), x, self.params, self.learning_rate)
            return
        self.learn(self.params, None, x, y_deriv)


def low_rank_pair(component: Component, u: Tensor, s: Tensor, v: Tensor) -> tuple[Component, Component]:
    """Returns two components that in a row do what an affine one with W = U diag(s) V^T (or a part of it) does.

    They are Linear diag(sqrt s) V^T and NaturalGradientAffine (U diag(sqrt s), b), with the rates of the original;
    u is (output_dim, rank), s (rank,), v (input_dim, rank).
    """
    assert component.is_affine
    assert component.updatable is not None
    root, parameters = s.sqrt(), component.parameters()
    linear, bias = parameters["linear_params"], parameters["bias_params"]
    first = LinearComponent((v * root).t().contiguous().to(linear))
    first.rank_in, first.rank_out = 40, 80
    second = NaturalGradientAffineComponent((u * root).to(linear), bias.clone())
    second.rank_in, second.rank_out = 20, 80
    for factor in (first, second):
        factor.copy_header(component.updatable)
    return first, second
