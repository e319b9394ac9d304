"""Rounds of a recurrence: when a round adds the rows of an earlier round, moved in time, the rest is foreseen.

A sweep goes round the nodes of a recurrence until nothing is added any more. A value handed on from frame to frame
would take a round per frame. So the added rows are compared: once additions repeat, moved by some frames every few
rounds, the rounds to come are *guessed*, all at once, and a guessed row gets a *rank*, its position in the order of
additions. A guess counts only as far as it is proved: a row of rank k must follow from rows of lower rank. Rows added
already have the lowest rank of all. So guesses save rounds and never change the result.

Seven rounds have added the rows at t = 0..6, one row a round. The four rows left are guessed; rows added already have
rank -1:

>>> rounds, there = Rounds([0]), np.zeros((11, 1, 1), bool)  # one node: (times, xs, classes)
>>> for t in range(7):
...     before = there.copy()
...     there[t] = True
...     rounds.begin()
...     rounds.add(0, before, there)
>>> rounds.guess({0: there})[0][:, 0, 0].tolist()
[-1, -1, -1, -1, -1, -1, -1, 0, 1, 2, 3]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from nnet3.engine.lowering.slot_table import Mask

Ranks = npt.NDArray[np.int64]
Rows = tuple[npt.NDArray[np.intp], ...]  # positions in the grid: time, x, class

Additions = list[dict[int, Rows]]  # what each of some rounds has added, by node
Front = tuple[Additions, int]  # what one period has added, and by how many frames the next moves it on

_EVERYTHING = (-np.inf, np.inf)

THERE, NEVER = -1, np.iinfo(np.int64).max
"""The ranks of what is there already and of what is not guessed."""

_FIRST_KEPT, _FIRST_GUESS = 3, 7  # rounds: most recurrences are settled before
_PAUSE = 4  # rounds from one guess to the next, doubled when it was in vain
_LONGEST_PERIOD = 8


class Rounds:
    """The rows that each round has added to the nodes of a recurrence, and a guess of those to come.

    Within a round the nodes take turns in the order given.
    """

    def __init__(self, nodes: Sequence[int]):
        self.nodes = list(nodes)
        self._turn = {node: turn for turn, node in enumerate(nodes)}
        self._history: Additions = []
        self._number, self._next_guess, self._pause = 0, _FIRST_GUESS, _PAUSE

    def begin(self) -> None:
        self._number += 1
        if self._number >= _FIRST_KEPT:
            self._history.append({})
        del self._history[: -3 * _LONGEST_PERIOD]

    def add(self, node: int, before: Mask, after: Mask) -> None:
        """Note what the turn of a node has added."""
        if self._number >= _FIRST_KEPT:
            self._history[-1][node] = np.nonzero(after & ~before)

    @property
    def is_time_to_guess(self) -> bool:
        return self._number >= self._next_guess

    def guess(self, state: Mapping[int, Mask]) -> dict[int, Ranks] | None:
        """Returns the rank of every row that is there (`state`) or guessed, by node; None if nothing repeats."""
        self._next_guess = self._number + self._pause
        self._pause *= 2
        found: list[Front] = []
        for period in range(1, min(_LONGEST_PERIOD, len(self._history) // 3) + 1):
            first, second, third = (self._history[len(self._history) - back * period :][:period] for back in (3, 2, 1))
            for select in (_EVERYTHING, *_halves([*first, *second, *third])):
                times = [_part(added, select) for added in (first, second, third)]
                move = _move(times[0], times[1])
                if move and _move(times[1], times[2]) == move:
                    found.append((times[2], move))
                    if select is _EVERYTHING:
                        break
            if found:
                return self._continued(found, state)
        return None

    def _continued(self, fronts: Sequence[Front], state: Mapping[int, Mask]) -> dict[int, Ranks]:
        ranks = {node: np.where(there, THERE, NEVER) for node, there in state.items()}
        for rounds, move in fronts:
            for number, added in enumerate(rounds):
                for node, (time, x, which) in added.items():
                    own = ranks[node]
                    steps = np.arange(len(own) // abs(move) + 1, 0, -1)[:, np.newaxis]  # the nearest is written last
                    times = time + move * steps
                    inside = (times >= 0) & (times < len(own))
                    rank = ((steps - 1) * len(rounds) + number) * len(self.nodes) + self._turn[node]
                    rows = (times[inside], *(np.broadcast_to(axis, times.shape)[inside] for axis in (x, which)))
                    own[rows] = np.minimum(own[rows], np.broadcast_to(rank, times.shape)[inside])
        return ranks

    def accept(self, ranks: Mapping[int, Ranks], proved: Callable[[int, Mapping[int, Ranks]], Mask]) -> dict[int, Mask]:
        """Returns the guessed rows, by node, as far as they are proved.

        `proved(node, ranks)` returns the rows of a node that follow from rows of lower rank. In every class, rows of
        the lowest rank that is not proved and of higher ranks are dropped.
        """
        guessed = {node: (own != NEVER) & (own != THERE) for node, own in ranks.items()}
        limit: Ranks | int = NEVER
        for node, rows in guessed.items():
            if rows.any():
                failing = np.where(rows & ~proved(node, ranks), ranks[node], NEVER)
                limit = np.minimum(limit, failing.min(axis=(0, 1)))
        accepted = {node: rows & (ranks[node] < limit) for node, rows in guessed.items()}
        if any(rows.any() for rows in accepted.values()):
            self._next_guess, self._pause = self._number + _PAUSE, _PAUSE
            self._history.clear()
        return accepted


def _move(earlier: Additions, later: Additions) -> int | None:
    """Returns by how many frames the later rounds are the earlier ones moved; None if they are not."""
    move = None
    for before, after in zip(earlier, later, strict=True):
        if before.keys() != after.keys():
            return None
        for node, (time, x, which) in after.items():
            old_time, old_x, old_which = before[node]
            if len(time) != len(old_time):
                return None
            if len(time) == 0:
                continue
            move = int(time[0] - old_time[0]) if move is None else move
            if (time - old_time != move).any() or (x != old_x).any() or (which != old_which).any():
                return None
    return move


def _halves(rounds: Additions) -> list[tuple[float, float]]:
    """Returns the early and the late half of the times, to follow two-way spreading separately in either half."""
    times = [rows[0] for added in rounds for rows in added.values() if len(rows[0])]
    if not times:
        return []
    middle = (min(int(each.min()) for each in times) + max(int(each.max()) for each in times)) / 2
    return [(-np.inf, middle), (middle, np.inf)]


def _part(rounds: Additions, select: tuple[float, float]) -> Additions:
    """Returns the additions at these times."""
    if select is _EVERYTHING:
        return rounds
    low, high = select
    return [
        {node: tuple(axis[(low < rows[0]) & (rows[0] <= high)] for axis in rows) for node, rows in added.items()}
        for added in rounds
    ]
