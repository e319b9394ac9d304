"""Grammars as word acceptors, by the cheapest reading: a word may take any arcs without words on its way."""

from __future__ import annotations

from bisect import bisect_left
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from nnet3.speech.arrays.aliases import Integers, Singles
from nnet3.speech.language_models.word_acceptor import NativeModel, WordAcceptor, WordArcs, arcs_of_pairs
from nnet3.speech.lattices.lattice_composition import WordFst

_SAME = 2.0**10  # steps in a unit of cost: states whose costs round to equal numbers of steps are one
_Members = dict[int, float]  # states of the FST, and by how much each is worse than the best one


class CheapestAcceptor(WordAcceptor):
    """The determinized acceptor of an FST of words, made on demand.

    A state is the set of FST states reached by the words before, with the cost of each beyond the cheapest.
    """

    def __init__(self, words: WordFst):
        self._words, fst = words, words.fst
        self._offsets, self._labels = _numbers(fst.offsets), _numbers(fst.ilabel)
        self._dst, self._cost = _numbers(fst.dst), _numbers(fst.cost)
        start = self._closure({fst.start: 0.0} if fst.num_states else {})
        self._states, self._number_of_key = [start], {_key(start): 0}
        self._arc_of = cache(self._made_arc)

    def __len__(self) -> int:
        """Returns the number of states made."""
        return len(self._states)

    def arcs(self, states: Integers, words: Integers) -> WordArcs:
        return arcs_of_pairs(self._arc_of, states, words)

    def arc(self, state: int, word: int) -> tuple[int, float] | None:
        return self._arc_of(state, word)

    def final_costs(self, states: Integers) -> Singles:
        return np.array([self.final_cost(state) for state in states.tolist()], np.float32)

    def final_cost(self, state: int) -> float:
        final = self._words.fst.final
        costs = (cost + float(final[member]) for member, cost in self._states[state].items())
        return float(np.float32(min(costs, default=np.inf)))

    def native(self) -> list[NativeModel]:
        fst, kinds = self._words.fst, (np.int64, np.int32, np.int32, np.float32, np.float32)
        columns = zip((fst.offsets, fst.ilabel, fst.dst, fst.cost, fst.final), kinds, strict=True)
        kept = [np.ascontiguousarray(column, kind) for column, kind in columns]
        table = [*(each.ctypes.data for each in kept), fst.num_states, fst.start]
        return [NativeModel("grammar", np.array(table, np.int64), kept)]

    def _made_arc(self, state: int, word: int) -> tuple[int, float] | None:
        reached: _Members = {}
        for member, cost in self._states[state].items():
            self._follow(member, word, cost, reached)
        if not reached:
            return None
        whole = self._closure(reached)
        best = min(whole.values())
        behind = {member: cost - best for member, cost in whole.items()}
        number = self._number_of_key.setdefault(_key(behind), len(self._states))
        if number == len(self._states):
            self._states.append(behind)
        return number, float(np.float32(best))

    def _closure(self, reached: _Members) -> _Members:
        """Returns the states reached, and all states behind them by arcs without words, with costs."""
        waiting = list(reached)
        while waiting:
            member = waiting.pop()
            waiting += self._follow(member, 0, reached[member], reached)
        return reached

    def _follow(self, member: int, label: int, cost: float, reached: _Members) -> list[int]:
        """Enters the destinations of a member's arcs with a label; returns those with a lower cost than before."""
        cheaper, end = list[int](), self._offsets[member + 1]
        arc = bisect_left(self._labels, label, self._offsets[member], end)
        while arc < end and self._labels[arc] == label:
            dst, total = self._dst[arc], cost + self._cost[arc]
            if total < reached.get(dst, np.inf):
                reached[dst] = total
                cheaper.append(dst)
            arc += 1
        return cheaper


def _numbers(array: npt.NDArray[Any]) -> memoryview:
    """Returns a view of an array that gives numbers of Python, sooner than the array gives its own."""
    return np.require(array, requirements=["ALIGNED"]).data


def _key(members: _Members) -> tuple[tuple[int, int], ...]:
    return tuple(sorted((member, round(cost * _SAME)) for member, cost in members.items()))
