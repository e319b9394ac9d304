"""Nests: tables as loops of rows, with numbers that may depend on parameters, and runs of rows.

The row numbers 0, 1, ..., N - 1, with a parameter N, are one run:

>>> from nnet3.engine.families.polynomial import Polynomial
>>> nest = Nest([Loop(Polynomial("N"), 4, lambda iteration: [(iteration,)])])
>>> nest.runs(lambda one, other: other.first[0] == one.last[0] + 1)
([Run(first=(0,), last=(N - 1,), count=N)], True)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

MAX_ITEMS = 8  # of a list that is printed

Row = tuple[Any, ...]


class Run(NamedTuple):
    """Rows printed as one item, from the first to the last."""

    first: Row
    last: Row
    count: Any


@dataclass(frozen=True)
class Loop:
    """Rows and loops that come `count` times, at least `fewest` times; `iteration` returns the rows of an iteration.

    All numbers are affine in the number of the iteration.
    """

    count: Any
    fewest: int
    iteration: Callable[[Any], Sequence[NestItem]]


NestItem = Row | Loop
GoesOn = Callable[[Run, Run], bool]  # true if two runs that follow each other are one


@dataclass(frozen=True)
class Nest:
    """A table of rows and loops of rows; its runs hold for all parameters."""

    parts: Sequence[NestItem]

    @property
    def num_rows(self) -> Any:
        return _num_rows(self.parts)

    def rows(self) -> Iterator[Row]:
        """Yields the rows of first iterations."""
        return _rows(self.parts)

    def runs(self, goes_on: GoesOn) -> tuple[list[Run], bool]:
        """Returns the runs, or the first of them, and whether the list is complete."""
        return _runs(self.parts, goes_on)


def _num_rows(parts: Sequence[NestItem]) -> Any:
    return sum([part.count * _num_rows(part.iteration(0)) if isinstance(part, Loop) else 1 for part in parts])


def _rows(parts: Sequence[NestItem]) -> Iterator[Row]:
    for part in parts:
        if isinstance(part, Loop):
            yield from _rows(part.iteration(0))
        else:
            yield part


def _runs(parts: Sequence[NestItem], goes_on: GoesOn) -> tuple[list[Run], bool]:
    found: list[Run] = []
    for part in parts:
        runs, is_all = _runs_of_loop(part, goes_on) if isinstance(part, Loop) else ([Run(part, part, 1)], True)
        for run in runs:
            found.append(run)
            while len(found) > 1 and goes_on(*found[-2:]):
                found[-2:] = [_joined(*found[-2:])]
        if not is_all or len(found) > 2 * MAX_ITEMS:
            return found, False
    return found, True


def _runs_of_loop(loop: Loop, goes_on: GoesOn) -> tuple[list[Run], bool]:
    """Returns one run of all iterations, or the runs of the iterations that exist for all parameters."""
    first, second, third = (_runs(loop.iteration(iteration), goes_on)[0] for iteration in range(3))
    if len(first) == 1 and goes_on(first[0], second[0]) and goes_on(_joined(first[0], second[0]), third[0]):
        # Numbers of iterations are affine: what goes on twice goes on in all iterations.
        last = _runs(loop.iteration(loop.count - 1), goes_on)[0][0].last
        return [Run(first[0].first, last, loop.count * first[0].count)], True
    shown = min(loop.count if isinstance(loop.count, int) else loop.fewest, 2 * MAX_ITEMS)
    runs, is_all = _runs([part for iteration in range(shown) for part in loop.iteration(iteration)], goes_on)
    if shown == loop.count:
        return runs, is_all
    following = _runs(loop.iteration(shown), goes_on)[0][0]
    return runs[: len(runs) - goes_on(runs[-1], following)], False


def _joined(one: Run, other: Run) -> Run:
    return Run(one.first, other.last, one.count + other.count)
