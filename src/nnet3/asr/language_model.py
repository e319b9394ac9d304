"""Back-off language models as acceptors: states are histories, arcs of label 0 lead to shorter ones."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nnet3.errors import ModelFormatError
from nnet3.kaldi_io import Fst

Integers = npt.NDArray[np.integer]
Doubles = npt.NDArray[np.float64]
_MOST_BACK_OFFS = 64
_LAST_KEY = np.iinfo(np.int64).max


class Steps(NamedTuple):
    """Ways on: the place in the question that each answers, the state behind it and its cost."""

    place: Integers
    state: Integers
    cost: Doubles


class BackoffModel:
    """A language model: a word may be read from a state or behind any of its back-offs."""

    def __init__(self, fst: Fst):
        self.fst, self.start = fst, fst.start
        if fst.start < 0 or not fst.is_acceptor:
            raise ModelFormatError("a language model must be an acceptor with a start")
        is_word = fst.ilabel > 0
        key = fst.src[is_word].astype(np.int64) << 32 | fst.ilabel[is_word]
        order = slice(None) if (np.diff(key) > 0).all() else np.argsort(key)
        self._key = np.append(key[order], _LAST_KEY)
        self._dst, self._cost = fst.dst[is_word][order], fst.cost[is_word][order].astype(np.float64)
        if (self._key[1:] == self._key[:-1]).any():
            raise ModelFormatError("a state of the language model has two arcs for a word")
        back_off = np.flatnonzero(~is_word)
        source = fst.src[back_off]
        if (np.diff(source) == 0).any():
            raise ModelFormatError("a state of the language model has two back-offs")
        self._shorter = np.full(fst.num_states, -1, np.int64)
        self._back_off_cost = np.zeros(fst.num_states)
        self._shorter[source], self._back_off_cost[source] = fst.dst[back_off], fst.cost[back_off]
        self._final = fst.final.astype(np.float64)

    @property
    def num_states(self) -> int:
        return len(self._final)

    @cached_property
    def most_general(self) -> int:
        """The state at the end of all back-offs from the start."""
        return int(self._histories(np.array([self.start]))[-1].state[0])

    def _histories(self, states: Integers) -> list[Steps]:
        """Returns the states themselves, those behind one back-off, two, and so on."""
        found = [Steps(np.arange(len(states)), np.asarray(states, np.int64), np.zeros(len(states)))]
        while True:
            place, state, cost = found[-1]
            on = np.flatnonzero(self._shorter[state] >= 0)
            if not len(on):
                return found
            if len(found) > _MOST_BACK_OFFS:
                raise ModelFormatError("the back-offs of the language model go round in a circle")
            found.append(Steps(place[on], self._shorter[state[on]], cost[on] + self._back_off_cost[state[on]]))

    def read(self, states: Integers, words: Integers) -> Steps:
        """Returns all ways in which each state reads its word: directly and behind each number of back-offs."""
        ways = []
        for place, state, cost in self._histories(states):
            at = self._find(state, words[place])
            found = np.flatnonzero(at >= 0)
            at = at[found]
            ways.append(Steps(place[found], self._dst[at].astype(np.int64), cost[found] + self._cost[at]))
        return Steps(*(np.concatenate(column) for column in zip(*ways, strict=True)))

    def end(self, states: Integers) -> Doubles:
        """Returns the least cost of ending in each state, behind any number of back-offs."""
        least = np.full(len(states), np.inf)
        for place, state, cost in self._histories(states):
            least[place] = np.minimum(least[place], cost + self._final[state])
        return least

    def end_after(self, words: Integers) -> float:
        """Returns what ending behind these words costs, (n,), more than the words alone."""
        states, costs = np.array([self.start], np.int64), np.zeros(1)
        for word in words.tolist():
            place, behind, cost = self.read(states, np.full(len(states), word))
            states, number = np.unique(behind, return_inverse=True)
            least = np.full(len(states), np.inf)
            np.minimum.at(least, number, costs[place] + cost)
            costs = least
        return float((costs + self.end(states)).min(initial=np.inf) - costs.min(initial=np.inf))

    def word_costs(self, size: int) -> npt.NDArray[np.float32]:
        """Returns the cost of each label below `size` in the most general state; infinite if it has no arc there."""
        costs = np.full(size, np.inf, np.float32)
        first, last = np.searchsorted(self._key, np.array([self.most_general, self.most_general + 1]) << 32)
        labels = self._key[first:last] & 0xFFFFFFFF
        known = labels < size
        costs[labels[known]] = self._cost[first:last][known]
        return costs

    def reads_any(self, states: Integers, begin: Integers, end: Integers) -> npt.NDArray[np.bool_]:
        """Returns for each state if it, or one behind its back-offs, has an arc of a label in begin .. end - 1."""
        any_of = np.zeros(len(states), bool)
        for place, state, _ in self._histories(states):
            first, last = (np.searchsorted(self._key, state << 32 | edge[place]) for edge in (begin, end))
            any_of[place] |= last > first
        return any_of

    def _find(self, states: Integers, words: Integers) -> Integers:
        """Returns the number of the arc of each state for its word; -1 where there is none."""
        key = states << 32 | words
        at = np.searchsorted(self._key, key)
        return np.where(self._key[at] == key, at, -1)
