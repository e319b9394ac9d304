"""The update of affine-like parameters by a product of two preconditioned matrices."""

from __future__ import annotations

import torch
from torch import Tensor

from nnet3.components.natural_gradient import Directions, OnlineNaturalGradient
from nnet3.components.row_matrix import RowMatrix

_LEAST_NORM = 0.01  # share of the squared norm that must be left: with less, factors would lose too much precision


def add_natural_gradient(
    weight: Tensor,
    bias: Tensor | None,
    rate: float,
    x: Tensor | RowMatrix,
    preconditioner_in: OnlineNaturalGradient,
    y_deriv: Tensor,
    preconditioner_out: OnlineNaturalGradient,
) -> None:
    """weight += rate s1 s2 G'^T X' with (X', s1) = PD_in(X), (G', s2) = PD_out(G).

    weight is (output_dim, input_dim), x (rows, input_dim), y_deriv (rows, output_dim). With a bias (output_dim,), X is
    x with a column of ones appended, and the bias moves by that column of the product.
    """
    into = preconditioner_in.directions(x, has_ones=bias is not None)
    out = preconditioner_out.directions(y_deriv)
    if out.num_rows >= max(weight.shape) and y_deriv.device.type == "cpu":  # the same choice in all processes
        # factors save most on the wider side; the narrower one is as well made, if it is much narrower
        output_dim, input_dim = weight.shape
        scale_in = _precise_scale(into) if 2 * input_dim >= output_dim else None
        scale_out = _precise_scale(out) if 2 * output_dim >= input_dim else None
        if scale_in is not None or scale_out is not None:
            _add_in_factors(weight, bias, rate, into, out, scale_in, scale_out)
            return
    x_hat, ones_hat, scale_in = into.matrix()
    g_hat, _, scale_out = out.matrix()
    rate *= float(scale_in * scale_out)
    weight.addmm_(g_hat.t(), x_hat, alpha=rate)
    if bias is not None:
        bias.addmv_(g_hat.t(), ones_hat, alpha=rate)


def _precise_scale(directions: Directions) -> Tensor | None:
    """The scale, if factors are precise enough for these directions."""
    norm = directions.norm_of_product()
    return directions.scale(norm) if norm > _LEAST_NORM * directions.norm else None


def _add_in_factors(
    weight: Tensor,
    bias: Tensor | None,
    rate: float,
    into: Directions,
    out: Directions,
    scale_in: Tensor | None,
    scale_out: Tensor | None,
) -> None:
    """The same without making G' and X', or one of them; a side whose scale is None is made.

    G'^T X' = G^T X - V^T (K^T X) - (G'^T H) W with X' = X - H W and G' = G - K V. A side that is made takes the place
    of X or G, and its H or K has no columns.
    """
    columns = weight.shape[1]
    x, h, w = into.x, into.projection, into.w
    ones = h.new_ones(len(h), 1)
    if scale_in is None:
        x_hat, ones_hat, scale_in = into.matrix()
        x, h, w, ones = RowMatrix(x_hat), h[:, :0], w[:, :0], ones_hat.unsqueeze(1)
    g, k, v = out.x.dense(), out.projection, out.w
    if scale_out is None:
        g, _, scale_out = out.matrix()
        k, v = k[:, :0], v[:, :0]
    rate *= float(scale_in * scale_out)
    h = torch.cat([h, ones], dim=1)
    product = (h.t() @ g).t().addmm_(v, k.t() @ h, alpha=-1)  # G'^T [H 1]
    of_h, of_ones = product[:, :-1], product[:, -1]
    x.add_product(weight, g, rate)
    weight.addmm_(torch.cat([v, of_h], dim=1), torch.cat([x.left_times(k.t()), w[:columns].t()]), alpha=-rate)
    if bias is not None:
        bias.add_(of_ones, alpha=rate).addmv_(of_h, w[columns], alpha=-rate)
