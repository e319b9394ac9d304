"""Adding a step to a model, with its length limited (docs/formulas.md, max-change)."""

from __future__ import annotations

import math

from nnet3.nnet import Nnet


def add_with_max_change(
    nnet: Nnet, delta: Nnet, max_param_change: float, *, limit: float = 1.0, scale: float = 1.0
) -> bool:
    """nnet += scale * delta, shortened where a component or the whole step would be longer than allowed.

    Component c may change by limit * its max-change, the model by limit * max_param_change (Euclidean norms; 0: no
    limit). False, and nothing is changed, if the step is infinite or NaN.
    """
    factors: dict[str, float] = {}
    total = 0.0
    for name, square in delta.squared_norms().items():
        updatable = delta.components[name].updatable
        assert updatable is not None
        length = math.sqrt(square) * abs(scale) if square >= 0 else math.nan
        allowed = limit * updatable.max_change
        factors[name] = allowed / length if allowed != 0 and length > allowed else 1.0
        total += factors[name] ** 2 * square
    length = abs(scale) * math.sqrt(total) if total >= 0 else math.nan
    if not math.isfinite(length):
        return False
    if max_param_change != 0 and length > limit * max_param_change:
        scale *= limit * max_param_change / length
    nnet.add_scaled_(delta, {name: scale * factors.get(name, 1.0) for name in nnet.components})
    return True
