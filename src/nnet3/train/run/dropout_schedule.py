"""Dropout proportions that change while training goes on, written as Kaldi's scripts have them."""

from __future__ import annotations

import fnmatch
import math
from dataclasses import dataclass

from nnet3.errors import ConfigError, TrainingError
from nnet3.nnet import Nnet

_FORM = "such as 0,0@0.20,0.5@0.50,0: proportions, those between the first and the last at parts of training"
_WHERE_NOT_SAID = 0.5


@dataclass(frozen=True)
class PieceOfSchedule:
    """For components whose names match `pattern`: (part of training, proportion) pairs, parts from 0 to 1 rising."""

    pattern: str
    points: tuple[tuple[float, float], ...]

    def proportion(self, done: float) -> float:
        """When the part `done` of the training is over: on straight lines between the points.

        Of two points at the same part the later one counts from there on.
        """
        after = next((number for number, (x, _) in enumerate(self.points) if x > done), None)
        if after is None:
            return self.points[-1][1]
        (x0, y0), (x1, y1) = self.points[max(after - 1, 0)], self.points[after]
        return y0 + (y1 - y0) * (done - x0) / (x1 - x0) if x1 > x0 else y1


def parse_dropout_schedule(text: str) -> tuple[PieceOfSchedule, ...]:
    """`SCHEDULE`, or several `PATTERN=SCHEDULE` with blanks between. Raises ConfigError."""
    return tuple(_parse_piece(word) for word in text.split())


class DropoutSchedule:
    """Sets the proportions of a network's dropout components; later pieces override earlier ones."""

    def __init__(self, nnet: Nnet, text: str):
        """Raises TrainingError for a pattern that no dropout component of the network matches."""
        self._pieces = []
        dropouts = {n: c for n, c in nnet.components.items() if c.dropout_proportion is not None}
        for piece in parse_dropout_schedule(text):
            matching = [component for name, component in dropouts.items() if fnmatch.fnmatchcase(name, piece.pattern)]
            if not matching:
                known = ", ".join(dropouts) or "none"
                raise TrainingError(
                    f"the dropout schedule is for '{piece.pattern}', but no dropout component of the network has such "
                    f"a name; there are: {known}"
                )
            self._pieces.append((piece, matching))

    def apply(self, done: float) -> float | None:
        """When the part `done` of the training is over. Returns the proportion of the first piece, if there is one."""
        for piece, components in self._pieces:
            for component in components:
                component.set_dropout_proportion(piece.proportion(done))
        return self._pieces[0][0].proportion(done) if self._pieces else None


def _parse_piece(word: str) -> PieceOfSchedule:
    pattern, _, schedule = word.rpartition("=")
    items = schedule.split(",")
    if len(items) < 2:
        raise ConfigError(f"'{schedule}' has no first and last proportion: expected a schedule {_FORM}")
    last = len(items) - 1
    points: list[tuple[float, float]] = []
    for number, item in enumerate(items):
        proportion, at, part = item.partition("@")
        if at and number in (0, last):
            raise ConfigError(f"'{item}': the first proportion is at 0 and the last one at 1, without @")
        x = float(number == last) if number in (0, last) else _number(part, item) if at else _WHERE_NOT_SAID
        if points and x < points[-1][0]:
            raise ConfigError(
                f"'{item}' comes before the point at {points[-1][0]:g}: expected parts of training that rise"
            )
        points.append((x, _number(proportion, item)))
    return PieceOfSchedule(pattern or "*", tuple(points))


def _number(text: str, item: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0.0 <= value <= 1.0:
        raise ConfigError(f"'{item}': expected a number from 0 to 1, got '{text}'; a schedule is {_FORM}")
    return value
