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
    if (
        len(y_deriv) >= max(weight.shape)
        and y_deriv.device.type == "cpu"
        and _add_in_factors(weight, bias, rate, into, out)
    ):
        return
    x_hat, ones_hat, scale_in = into.matrix()
    g_hat, _, scale_out = out.matrix()
    rate *= float(scale_in * scale_out)
    weight.addmm_(g_hat.t(), x_hat, alpha=rate)
    if bias is not None:
        bias.addmv_(g_hat.t(), ones_hat, alpha=rate)


def _add_in_factors(weight: Tensor, bias: Tensor | None, rate: float, into: Directions, out: Directions) -> bool:
    """The same without making G' and X'; False, and nothing done, where that is not precise.

    G'^T X' = G^T X - V^T (K^T X) - (G'^T H) W with X' = X - H W and G' = G - K V.
    """
    norm_in, norm_out = into.norm_of_product(), out.norm_of_product()
    if not (norm_in > _LEAST_NORM * into.norm and norm_out > _LEAST_NORM * out.norm):
        return False
    rate *= float(into.scale(norm_in) * out.scale(norm_out))
    columns = weight.shape[1]
    h, k, v = into.projection, out.projection, out.w
    g = out.x.dense()
    if bias is not None:
        h = torch.cat([h, h.new_ones(len(h), 1)], dim=1)
    product = (h.t() @ g).t().addmm_(v, k.t() @ h, alpha=-1)  # G'^T [H 1]
    of_h = product[:, : into.w.shape[1]]
    into.x.add_product(weight, g, rate)
    left = torch.cat([v, of_h], dim=1)
    right = torch.cat([into.x.left_times(k.t()), into.w[:columns].t()])
    weight.addmm_(left, right, alpha=-rate)
    if bias is not None:
        bias.add_(product[:, -1], alpha=rate).addmv_(of_h, into.w[columns], alpha=-rate)
    return True
