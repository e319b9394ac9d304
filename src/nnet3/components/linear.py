"""LinearComponent: y = x W^T, with natural gradient."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from nnet3.components.affine import NaturalGradientAffineComponent, check_dims_of_matrix, initial_linear
from nnet3.components.affine_part import AffinePart
from nnet3.components.base import Component, Deriv, Properties, Updated
from nnet3.components.field_table import Field, Summary
from nnet3.components.fields import load_matrix_key
from nnet3.components.kinds import BOOLEAN, MATRIX
from nnet3.components.low_precision import low_precision
from nnet3.components.natural_gradient_product import add_natural_gradient
from nnet3.components.natural_gradient_settings import (
    ALPHA,
    NUM_SAMPLES_HISTORY,
    RANKS_IN_ONE,
    UPDATE_PERIOD_OF_PAIR,
    NaturalGradientPair,
)
from nnet3.components.random_source import RandomSource
from nnet3.components.registry import register
from nnet3.components.summary import rms, row_and_column_norms
from nnet3.components.updatable import ORTHONORMAL
from nnet3.text import ConfigLine


@register
class LinearComponent(NaturalGradientPair):
    """No bias. Parameter: params (output_dim, input_dim).

    As in Kaldi, `use_natural_gradient` is read and written but changes nothing: only a gradient copy updates plainly.
    """

    properties = Properties.SIMPLE | Properties.UPDATABLE | Properties.BACKPROP_NEEDS_INPUT
    parameter_names = ("params",)
    has_parts = True

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

    def part(self, first: int, end: int, adds: bool) -> AffinePart:
        return AffinePart(self, "params", "", first, end)

    def forward(self, x: Tensor, y: Tensor, indexes: Any = None) -> None:
        torch.mm(x, self.params.t(), out=y)

    def backward(
        self, x: Tensor, y: Tensor, y_deriv: Tensor, memo: Any, to_update: Updated, x_deriv: Deriv, indexes: Any = None
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
