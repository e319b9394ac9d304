"""Two components of low rank in the place of an affine one."""

from __future__ import annotations

from torch import Tensor

from nnet3.components.affine import NaturalGradientAffineComponent
from nnet3.components.base import Component
from nnet3.components.linear import LinearComponent


def low_rank_pair(component: Component, u: Tensor, s: Tensor, v: Tensor) -> tuple[Component, Component]:
    """For an affine component and (a part of) W = U diag(s) V^T two new ones, to be applied one after the other.

    Linear diag(sqrt s) V^T, then NaturalGradientAffine (U diag(sqrt s), b), with the rates of the original; u is
    (output_dim, rank), s (rank,), v (input_dim, rank).
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
