"""Changes of parameters by a step (docs/formulas.md): l2 regularisation, max-change, the orthonormal constraint."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor

from nnet3.model.components.random_source import RandomSource
from nnet3.model.components.updatable import OrthonormalComponent
from nnet3.model.nnet import Nnet

_SPEED = 0.125  # convergence is quadratic with this one


def add_l2(delta: Nnet, nnet: Nnet, scale: float) -> None:
    """Adds -2 scale rate l2 times the model to delta, where `l2_regularize` is not 0; rates are the delta's."""
    for name, component in delta.components.items():
        updatable = component.updatable
        if updatable is not None and updatable.l2_regularize != 0.0:
            factor = -2.0 * scale * updatable.learning_rate * updatable.l2_regularize
            updatable.add_(factor, nnet.components[name])


@dataclass(frozen=True)
class Update:
    """The outcome of a step: how much it was shortened, or why it was not taken."""

    shortened: dict[str, float] = field(default_factory=dict)  # factors below 1, by component
    factor: float = 1.0  # of the whole step
    limits: dict[str, float] = field(default_factory=dict)  # max-change of the components that were shortened
    limit: float = 0.0  # of the whole step
    updatable: tuple[str, ...] = ()  # all components that may be shortened, in the order of the network
    line_behind: str = ""  # of the log, behind that of this step
    not_finite: str | None = None  # the component whose step is infinite or NaN: nothing was added


def add_with_max_change(
    nnet: Nnet,
    delta: Nnet,
    max_param_change: float,
    *,
    limit: float = 1.0,
    scale: float = 1.0,
    of_components: bool = True,
) -> Update:
    """Adds scale * delta to nnet, shortened where a component or the whole step would be longer than allowed.

    Component c may change by limit * its max-change, the model by limit * max_param_change (Euclidean norms; 0: no
    limit). Nothing is changed if the step is infinite or NaN. `of_components`: heed the limits of components.
    """
    squares, limits = delta.squared_norms(), {}
    for name in squares:
        updatable = delta.components[name].updatable
        assert updatable is not None
        limits[name] = updatable.max_change if of_components else 0.0
    update, factors = within_max_change(squares, limits, max_param_change, limit=limit, scale=scale)
    if update.not_finite is None:
        nnet.add_scaled_(delta, dict.fromkeys(nnet.components, scale * update.factor) | factors)
    return update


def within_max_change(
    squares: Mapping[str, float],
    max_changes: Mapping[str, float],
    max_param_change: float,
    *,
    limit: float = 1.0,
    scale: float = 1.0,
) -> tuple[Update, dict[str, float]]:
    """Returns how a step is shortened, and the factors by which the parts of the delta are added to the model.

    `squares`: the squared norms of the delta's parts; `max_changes`: how much a part may change (0: no limit).
    """
    shortened: dict[str, float] = {}
    total, limits = 0.0, {}
    for name, square in squares.items():
        length = math.sqrt(square) * abs(scale)
        allowed = limit * max_changes[name]
        factor = allowed / length if allowed != 0 and length > allowed else 1.0
        if factor < 1.0:
            shortened[name], limits[name] = factor, max_changes[name]
        total += factor**2 * square
        if not math.isfinite(total):
            return Update(not_finite=name), {}
    length = abs(scale) * math.sqrt(total)
    allowed = limit * max_param_change
    factor = allowed / length if allowed != 0 and length > allowed else 1.0
    update = Update(shortened, factor, limits, max_param_change, tuple(squares))
    return update, {name: scale * factor * shortened.get(name, 1.0) for name in squares}


def constrain_orthonormal(nnet: Nnet, rng: RandomSource) -> None:
    """Takes a step for components with a constraint; `rng` picks a component with probability 1/4."""
    for component in nnet.components.values():
        if not isinstance(component, OrthonormalComponent) or component.orthonormal_constraint == 0.0:
            continue
        if rng.integer(0, 3) == 0:
            make_more_orthonormal_(component.orthonormal_matrix, component.orthonormal_constraint)


def make_more_orthonormal_(matrix: Tensor, scale: float) -> None:
    """Takes a step M -= 4 nu / a^2 (M M^T - a^2 I) M, in place, for M or its transpose, whichever has fewer rows.

    With `scale` > 0, a is the scale. With `scale` < 0, a keeps the size of M through the step: a^2 =
    tr(P P) / tr(P) with P = M M^T. Then steps are smaller while the singular values are far apart.
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
