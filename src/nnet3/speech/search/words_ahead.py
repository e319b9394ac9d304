"""WordsAhead: which words of a language model can come next in a look-ahead graph, and the cost of the union."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nnet3.base.kaldi_io.fst_const import LabelReach
from nnet3.base.native.addresses import address_of
from nnet3.base.native.library import library
from nnet3.speech.arrays.aliases import Doubles, Integers
from nnet3.speech.arrays.arcs import arcs_leaving
from nnet3.speech.language_models.language_model import BackoffModel

Costs = npt.NDArray[np.float32]
_NONE = -1
_LONG_GROUP = 64
_WORDS_AT_ONCE = 4096
_KINDS = *3 * (np.int64,), np.int32, np.int32, np.int64, np.int64  # as C takes intervals and arcs


class Ahead(NamedTuple):
    """Answers for pairs of states: if a word or the end can come; the cost of any of them, 0 where `only` is the
    model's arc of the only possible word (-1: none or several).
    """

    is_some: npt.NDArray[np.bool_]
    cost: Costs
    only: Integers


class _Found(NamedTuple):
    """The number of words, their mass, and the arc of the last word, -1 without words."""

    number: Integers
    mass: Doubles
    arc: Integers


class ReachedWords:
    """The words that states of a graph reach."""

    def __init__(self, reach: LabelReach):
        self.reach = reach
        self._final_is_largest = 0 < reach.end.max(initial=0) <= reach.final_label + 1

    def can_end(self, states: Integers) -> npt.NDArray[np.bool_]:
        """Returns for each state if a path can end without a word; mostly no label is larger than the final one."""
        if not self._final_is_largest:
            return self.has(states, np.full(len(states), self.reach.final_label))
        last = self.reach.offsets[states + 1] - 1
        return (last >= self.reach.offsets[states]) & (self.reach.end[last] > self.reach.final_label)

    def num_intervals(self, states: Integers) -> Integers:
        """Returns the numbers of intervals of labels that states reach."""
        return self.reach.offsets[states + 1] - self.reach.offsets[states]

    def has(self, states: Integers, words: Integers) -> npt.NDArray[np.bool_]:
        """Returns for each state if its word can come next."""
        reach, first, end = self.reach, self.reach.offsets[states], self.reach.offsets[states + 1]
        if not len(reach.begin):
            return np.zeros(len(states), bool)
        at, step = first - 1, 1 << int((end - first).max(initial=0)).bit_length()  # the last interval before each word
        while step := step >> 1:
            ahead = np.minimum(at + step, end - 1)
            at = np.where(reach.begin[ahead] <= words, ahead, at)
        return (at >= first) & (words < reach.end[at])

    def has_any(self, state: int, model: BackoffModel) -> bool:
        """Returns True if a word of the model can come next in a state."""
        arcs = len(model.cost)
        blocks = (np.arange(at, min(at + _WORDS_AT_ONCE, arcs)) for at in range(0, arcs, _WORDS_AT_ONCE))
        return any(self.has(np.full(len(block), state), model.word(block)).any() for block in blocks)


class WordsAhead:
    """Words common to the reach of a graph's states and the arcs of a language model's states."""

    def __init__(self, reached: ReachedWords, model: BackoffModel):
        self._reached, self._model = reached, model
        self._mass = model.cost.astype(np.float64)
        np.exp(np.negative(self._mass, out=self._mass), out=self._mass)
        self._mass_before = _sums_before(self._mass, model.first_arc)

    def look(self, states: Integers, histories: Integers) -> Ahead:
        """Answers for pairs of a state of the graph and a state of the model, (n,) each."""
        is_short = 4 * self._model.num_words(histories) < self._reached.num_intervals(states)
        count, mass, arc = np.zeros(len(states), np.int64), np.zeros(len(states)), np.full(len(states), _NONE)
        for ask, those in ((self._by_words, is_short), (self._by_intervals, ~is_short)):
            chosen = np.flatnonzero(those)
            if len(chosen):
                count[chosen], mass[chosen], arc[chosen] = ask(states[chosen], histories[chosen])
        final = np.where(self._reached.can_end(states), self._model.final[histories], np.inf)
        ends = final < np.inf
        with np.errstate(divide="ignore"):
            cost = -np.log(mass)
        cost[count == 1] = self._model.cost[arc[count == 1]]
        only = np.where((count == 1) & ~ends, arc, _NONE)
        cost = np.where(only == _NONE, np.minimum(cost, final), 0).astype(np.float32)
        return Ahead((count > 0) | ends, cost, only)

    def _by_intervals(self, states: Integers, histories: Integers) -> _Found:
        """Looks for the words of each interval, in C (words.c) where it can be compiled."""
        functions = library()
        if functions is None:
            return self._by_intervals_with_numpy(states, histories)
        reach, model, count = self._reached.reach, self._model, len(states)
        found = _Found(np.empty(count, np.int64), np.empty(count), np.empty(count, np.int64))
        given = states, histories, reach.offsets, reach.begin, reach.end, model.first_arc, model.key
        columns = [np.ascontiguousarray(each, kind) for each, kind in zip(given, _KINDS, strict=True)]
        columns += [self._mass, self._mass_before, *found]
        functions.nnet3_words_of_intervals(count, *(column.ctypes.data for column in columns))
        return found

    def _by_intervals_with_numpy(self, states: Integers, histories: Integers) -> _Found:
        """Does what `_by_intervals` does in C, to the last bit."""
        reach = self._reached.reach
        order = np.argsort(histories, kind="stable")  # what is looked for then lies close together
        interval, position = arcs_leaving(reach.offsets, states[order])
        position = order[position]
        history = histories[position] << 32
        first = np.searchsorted(self._model.key, history | reach.begin[interval])
        end = history | reach.end[interval]
        some = np.flatnonzero(self._model.key[first] < end)  # most intervals have no word
        first, position = first[some], position[some]
        last = np.searchsorted(self._model.key, end[some]) - 1
        mass = self._mass_before[last] + self._mass[last] - self._mass_before[first]
        arc = np.full(len(states), _NONE)
        arc[position] = last
        count = np.bincount(position, last + 1 - first, len(states)).astype(np.int64)
        return _Found(count, np.bincount(position, mass, len(states)).astype(np.float64), arc)

    def _by_words(self, states: Integers, histories: Integers) -> _Found:
        """Looks in the intervals for each of a few words."""
        candidate, position = arcs_leaving(self._model.first_arc, histories)
        some = np.flatnonzero(self._reached.has(states[position], self._model.word(candidate)))
        candidate, position = candidate[some], position[some]
        arc = np.full(len(states), _NONE)
        arc[position] = candidate
        mass = np.bincount(position, self._mass[candidate], len(states)).astype(np.float64)
        return _Found(np.bincount(position, minlength=len(states)), mass, arc)


def _sums_before(values: Doubles, offsets: Integers) -> Doubles:
    """Returns for every value the sum of the values before in the group; groups begin at `offsets`."""
    functions = library()
    if functions is None:
        return _sums_before_with_numpy(values, offsets)
    before = np.zeros(max(len(values), 1))
    functions.nnet3_sums_before(len(offsets) - 1, *map(address_of, (offsets, values, before)))
    return before


def _sums_before_with_numpy(values: Doubles, offsets: Integers) -> Doubles:
    """Does what `_sums_before` does in C, to the last bit.

    Sums never cross groups, and are exact even behind many large values: long groups are summed one by one, short
    groups together, first all second values, then all third values and so on.
    """
    before, counts = np.append(0, values[:-1]), np.diff(offsets)
    before[offsets[:-1][counts > 0]] = 0
    is_long = counts > _LONG_GROUP
    for first, end in zip(offsets[:-1][is_long].tolist(), offsets[1:][is_long].tolist(), strict=True):
        np.cumsum(before[first:end], out=before[first:end])
    longest_first = np.flatnonzero(~is_long)[np.argsort(-counts[~is_long], kind="stable")]
    at, left = offsets[longest_first], -counts[longest_first]
    for position in range(1, int(-left.min(initial=0))):
        at = at[: np.searchsorted(left, -position)] + 1  # the groups that have a value at this position
        before[at] += before[at - 1]
    return before
