"""DropoutSchedule: dropout proportions that change in the course of training, as an option gives them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from nnet3.errors import TrainingError

_MIDDLE = 0.5  # where a value stands without `@`


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


def _points(text: str) -> tuple[tuple[float, float], ...]:
    words = text.split(",")
    if len(words) < 2:
        raise TrainingError(f"dropout schedule '{text}' needs at least a value at the beginning and one at the end")
    points = []
    for number, word in enumerate(words):
        value, at, share = word.partition("@")
        is_end = number in (0, len(words) - 1)
        if is_end and at:
            raise TrainingError(f"dropout schedule '{text}': the first and the last value take no @, got '{word}'")
        default = (0.0 if number == 0 else 1.0) if is_end else _MIDDLE
        points.append((_share(share, word, text) if at else default, _share(value, word, text)))
    shares = [share for share, _ in points]
    if shares != sorted(shares):
        raise TrainingError(f"dropout schedule '{text}': the shares of the data must not fall, got {shares}")
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
    """Returns the proportion at a share of training; from two points at one share on the later point counts."""
    before = max((number for number, (share, _) in enumerate(points) if share <= done))
    if before == len(points) - 1:
        return points[-1][1]
    (start, first), (end, last) = points[before], points[before + 1]
    return first + (last - first) * (done - start) / (end - start)
