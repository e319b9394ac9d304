"""Learning rates and dropout proportions that change in the course of training (docs/training.md)."""

from __future__ import annotations

import math
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from nnet3.base.options.dropout_schedule import DropoutSchedule
from nnet3.errors import TrainingError

if TYPE_CHECKING:  # describing settings needs no PyTorch
    from nnet3.model.nnet import Nnet

_LEAST_FACTOR = 0.5  # of shrinking


def exponential_rate(first: float, last: float, done: float) -> float:
    """Returns the rate when the share `done` (0 to 1) of training is over; rates fall in equal ratios."""
    if first <= 0 or last <= 0:
        raise TrainingError(f"learning rates must be > 0, got {first:g} and {last:g}")
    return first * math.exp(done * math.log(last / first))


def shrinkage(rate: float, proportional: float, value: float, is_saturated: bool) -> float:
    """Returns the factor by which parameters are multiplied before a round: 1 - proportional * rate, or `value` if that
    is smaller and nonlinearities are saturated. Raises TrainingError for a factor of 0.5 or less of the first kind."""
    factor = 1.0 - proportional * rate
    if factor <= _LEAST_FACTOR:
        raise TrainingError(
            f"proportional-shrink = {proportional:g} with learning rate {rate:g} would multiply parameters by "
            f"{factor:g}, which must stay above {_LEAST_FACTOR:g}: lower one of the two"
        )
    return min(factor, value) if is_saturated else factor


def set_dropout(nnet: Nnet, schedule: DropoutSchedule, done: float) -> None:
    """Sets the dropout proportions of the network's components for this share (0 to 1) of the data."""
    for pattern, proportion in schedule.proportions(done):
        for name, component in nnet.components.items():
            if component.dropout_proportion is not None and fnmatchcase(name, pattern):
                component.set_dropout_proportion(proportion)
