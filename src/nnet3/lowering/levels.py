"""Levels: inside a recurrent epoch, the length of the longest chain of needs below each item.

The levels of a recurrence grow by a fixed amount a period. So they are followed for a few periods only, continued by
arithmetic, and checked: if no item needs itself, the equation level = 1 + max(levels needed) has one solution, so
levels that satisfy it are right. Irregular levels are followed to their end.

Items 0 to 3 need the one before, item 0 none (4):

>>> levels_of(np.array([[4], [0], [1], [2]]), [np.arange(4)]).tolist()
[0, 1, 2, 3]
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nnet3.schedule import exact_levels

Levels = npt.NDArray[np.int64]

_FIRST_ROUNDS, _LAST_ROUNDS = 32, 256
_CHECKS = 12
_MAX_PERIOD = 48  # rows of one place after which the pattern of levels repeats


def levels_of(needs: np.ndarray, places: list[np.ndarray]) -> Levels:
    """Returns the level of each item, (items,).

    `needs` (items, slots): the items that each one needs, the number of items where there is none. `places`: groups of
    items, each in the order of time, along which levels may be regular. Raises CycleError.
    """
    num_items = len(needs)
    level = np.zeros(num_items + 1, dtype=np.int64)
    level[-1] = -1
    columns = np.ascontiguousarray(needs.T)
    rounds, done = _FIRST_ROUNDS, 0
    while rounds <= _LAST_ROUNDS:
        if _iterate(level, columns, rounds - done):
            return level[:-1]
        guess = level.copy()
        for items in places:
            guess[items] = _continued(level[items], rounds)
        if _iterate(guess, columns, _CHECKS):
            return guess[:-1]
        done, rounds = rounds, 2 * rounds
    user, slot = np.nonzero(needs < num_items)
    return exact_levels(num_items, user, needs[user, slot]).astype(np.int64)


def _iterate(level: Levels, columns: np.ndarray, rounds: int) -> bool:
    """Set level = 1 + max(levels needed) up to `rounds` times; returns True if it came to rest."""
    for _ in range(rounds):
        highest = level[columns[0]]
        for column in columns[1:]:
            np.maximum(highest, level[column], out=highest)
        highest += 1
        if np.array_equal(highest, level[:-1]):
            return True
        level[:-1] = highest
    return False


def _continued(level: Levels, rounds: int) -> Levels:
    """Returns the levels, with guesses from `rounds` on: these continue the pattern in time of the lower ones."""
    settled = level < rounds
    count = int(settled.sum())
    if count == len(level) or count < 3:
        return level
    if settled[:count].all():
        return _extended(level, count)
    if settled[-count:].all():
        return _extended(level[::-1], count)[::-1]
    return level


def _extended(level: Levels, count: int) -> Levels:
    """Returns the first `count` levels continued: after each period the same again, higher by a constant.

    The latter two thirds of them must follow the pattern; a few might do so by chance.
    """
    known, regular = level[:count], level[count // 3 : count]
    for period in range(1, min(len(regular) // 2, _MAX_PERIOD) + 1):
        rise = regular[period:] - regular[:-period]
        if (rise == rise[0]).all():
            beyond = np.arange(len(level) - count)
            times, place = np.divmod(beyond, period)
            result = level.copy()
            result[count:] = known[count - period + place] + rise[0] * (times + 1)
            return result
    return level
