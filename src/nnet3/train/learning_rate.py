"""Learning rates that fall while training goes on."""

from __future__ import annotations

import math

from nnet3.errors import TrainingError


def exponential_rate(first: float, last: float, done: float) -> float:
    """The rate when `done` (0 to 1) of the training is done: from the first to the last in equal ratios."""
    if first <= 0 or last <= 0:
        raise TrainingError(f"learning rates must be > 0, got {first:g} and {last:g}")
    return first * math.exp(done * math.log(last / first))
