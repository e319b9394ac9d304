"""Adding a step to a model, with its length limited (docs/formulas.md, max-change)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from nnet3.nnet import Nnet


@dataclass(frozen=True)
class Update:
    """What became of a step: by how much it was shortened, or why it was not taken."""

    shortened: dict[str, float] = field(default_factory=dict)  # factors below 1, by component
    factor: float = 1.0  # of the whole step
    limits: dict[str, float] = field(default_factory=dict)  # max-change of the components that were shortened
    limit: float = 0.0  # of the whole step
    num_updatable: int = 0
    not_finite: str | None = None  # the component whose step is infinite or NaN: nothing was added

    @property
    def taken(self) -> bool:
        return self.not_finite is None


def add_with_max_change(
    nnet: Nnet, delta: Nnet, max_param_change: float, *, limit: float = 1.0, scale: float = 1.0
) -> Update:
    """nnet += scale * delta, shortened where a component or the whole step would be longer than allowed.

    Component c may change by limit * its max-change, the model by limit * max_param_change (Euclidean norms; 0: no
    limit). Nothing is changed if the step is infinite or NaN.
    """
    shortened: dict[str, float] = {}
    total = 0.0
    squares, limits = delta.squared_norms(), {}
    for name, square in squares.items():
        updatable = delta.components[name].updatable
        assert updatable is not None
        length = math.sqrt(square) * abs(scale)
        allowed = limit * updatable.max_change
        factor = allowed / length if allowed != 0 and length > allowed else 1.0
        if factor < 1.0:
            shortened[name], limits[name] = factor, updatable.max_change
        total += factor**2 * square
        if not math.isfinite(total):
            return Update(not_finite=name)
    length = abs(scale) * math.sqrt(total)
    allowed = limit * max_param_change
    factor = allowed / length if allowed != 0 and length > allowed else 1.0
    nnet.add_scaled_(delta, {name: scale * factor * shortened.get(name, 1.0) for name in nnet.components})
    return Update(shortened, factor, limits, max_param_change, len(squares))
