"""Pulling matrices towards a multiple of orthonormal rows (docs/formulas.md, the orthonormal constraint)."""

from __future__ import annotations

from torch import Tensor

from nnet3.components import RandomSource
from nnet3.components.orthonormal import OrthonormalComponent
from nnet3.nnet import Nnet

_SPEED = 0.125  # convergence is quadratic with this one


def constrain_orthonormal(nnet: Nnet, rng: RandomSource) -> None:
    """One step for each component with a constraint, which `rng` picks with probability 1/4 each."""
    for component in nnet.components.values():
        if not isinstance(component, OrthonormalComponent) or component.orthonormal_constraint == 0.0:
            continue
        if rng.integer(0, 3) == 0:
            make_more_orthonormal_(component.orthonormal_matrix, component.orthonormal_constraint)


def make_more_orthonormal_(matrix: Tensor, scale: float) -> None:
    """One step M -= 4 nu / a^2 (M M^T - a^2 I) M, in place, for M or its transpose, whichever has fewer rows.

    `scale` > 0 is a; < 0: a is the scale at which the step does not change the size of M, a^2 = tr(P P) / tr(P) with
    P = M M^T, and steps are smaller while the singular values are far from each other.
    """
    m = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.t()
    p = m @ m.t()
    speed, square = _SPEED, scale**2
    if scale < 0:
        trace, trace_of_square = float(p.trace()), float(p.double().square().sum())
        if not trace >= 1e-15:
            return
        square = trace_of_square / trace
        spread = trace_of_square * len(p) / trace**2  # 1 if all singular values are equal
        speed /= 4.0 if spread > 1.1 else 2.0 if spread > 1.02 else 1.0
    p.diagonal().sub_(square)
    m.addmm_(p, m.clone(), alpha=-4.0 * speed / square)
