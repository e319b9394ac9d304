"""Learning rates and dropout proportions that change in the course of training (docs/training.md)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from nnet3.errors import TrainingError

if TYPE_CHECKING:  # describing settings needs no PyTorch
    from nnet3.nnet import Nnet

_LEAST_FACTOR = 0.5  # of shrinking
_MIDDLE = 0.5  # where a value stands that says no other place


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


@dataclass(frozen=True)
class DropoutSchedule:
    """Points (share of the data, proportion) for patterns of component names, in the order of application."""

    points: tuple[tuple[str, tuple[tuple[float, float], ...]], ...]

    @classmethod
    def parse(cls, text: str) -> DropoutSchedule:
        """Reads `0,0@0.20,0.5@0.50,0`, or several `PATTERN=SCHEDULE` with spaces between. Raises TrainingError.

        The first value holds at the beginning, the last value at the end. A value in between holds at the share of the
        data behind its `@` (0.5 by default); between values proportions go along straight lines.
        """
        if not text.split():
            raise TrainingError("a dropout schedule is empty: write for instance 0,0@0.20,0.5@0.50,0")
        pieces = []
        for word in text.split():
            pattern, _, values = word.rpartition("=")
            pieces.append((pattern or "*", _points(values)))
        return cls(tuple(pieces))

    def proportions(self, done: float) -> list[tuple[str, float]]:
        """Returns the proportion of each pattern when this share (0 to 1) of the data has been seen."""
        return [(pattern, _value_at(points, done)) for pattern, points in self.points]

    def apply(self, nnet: Nnet, done: float) -> None:
        """Set the dropout proportions of the network's components for this share of the data."""
        for pattern, proportion in self.proportions(done):
            for name, component in nnet.components.items():
                if component.dropout_proportion is not None and fnmatchcase(name, pattern):
                    component.set_dropout_proportion(proportion)


def _points(text: str) -> tuple[tuple[float, float], ...]:
    words = text.split(",")
    if len(words) < 2:
        raise TrainingError(f"dropout schedule '{text}' needs at least a value at the beginning and one at the end")
    points = []
    for number, word in enumerate(words):
        value, at, place = word.partition("@")
        is_end = number in (0, len(words) - 1)
        if is_end and at:
            raise TrainingError(f"dropout schedule '{text}': the first and the last value take no @, got '{word}'")
        default = (0.0 if number == 0 else 1.0) if is_end else _MIDDLE
        points.append((_share(place, word, text) if at else default, _share(value, word, text)))
    places = [place for place, _ in points]
    if places != sorted(places):
        raise TrainingError(f"dropout schedule '{text}': the shares of the data must not fall, got {places}")
    return tuple(points)


def _share(text: str, word: str, schedule: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0.0 <= value <= 1.0:
        raise TrainingError(
            f"dropout schedule '{schedule}': '{word}' must be a number from 0 to 1, or two with @ between"
        )
    return value


def _value_at(points: Sequence[tuple[float, float]], done: float) -> float:
    """Returns the proportion at a place; where two points stand at one place, the later point counts from there on."""
    before = max((number for number, (place, _) in enumerate(points) if place <= done))
    if before == len(points) - 1:
        return points[-1][1]
    (start, first), (end, last) = points[before], points[before + 1]
    return first + (last - first) * (done - start) / (end - start)
