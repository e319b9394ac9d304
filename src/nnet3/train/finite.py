"""A cheap look whether numbers are finite, at each stage of a minibatch."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor

from nnet3.train.minibatch import Minibatch
from nnet3.train.objectives import OutputResult


def is_finite(matrix: Tensor) -> bool:
    """Whether it holds neither NaN nor infinity. Its sum nearly always tells, at a tenth of the cost."""
    return bool(matrix.sum().isfinite()) or bool(matrix.isfinite().all())


def bad_data(minibatch: Minibatch) -> str | None:
    """What of the data is not finite, if something is."""
    for io in minibatch.inputs:
        if not is_finite(io.matrix):
            return f"input '{io.name}' is not finite"
    for target in minibatch.targets:
        if not target.is_finite:
            return f"the target of output '{target.name}' is not finite"
    return None


def bad_results(results: Sequence[OutputResult]) -> str | None:
    """Which objective or derivative is not finite, if one is."""
    for result in results:
        if not all(math.isfinite(number) for number in result.stats.numbers()):
            return f"the objective of output '{result.name}' is not finite"
        if result.deriv is not None and not is_finite(result.deriv):
            return f"the derivative of the objective by output '{result.name}' is not finite"
    return None
