"""Graphs of given words, made state by state as Kaldi's compile-train-graphs leaves them, as oracles.

For lexicons in which each word is a phone of its own and phone 1 is silence, which may be between words, as likely as
not: costs are those that determinization in the log semiring gives, in steps of 1/1024 as there.
"""

from __future__ import annotations

import math

import numpy as np

from nnet3.hmm import TransitionModel
from nnet3.kaldi_io import Fst

SILENCE = 1
_STEPS = 1024


def graph_of_words(model: TransitionModel, words: list[int], first: float, each: float, self_loop_scale: float) -> Fst:
    """`first`: cost of silence, or none, before the first word; `each`: of each word, with silence behind or not."""
    either = math.log(2)
    begin, wait, word_cost = (round(cost * _STEPS) / _STEPS for cost in (first, either, each - either))
    graph = _Graph(model, self_loop_scale)
    place = graph.start
    for number, word in enumerate(words):
        cost = wait if number else begin
        silent = graph.phone(place, SILENCE, 0, cost)
        spoken = graph.phone(place, word, word, cost + word_cost)
        graph.phone(silent, word, word, word_cost, into=spoken)
        place = spoken
    silent = graph.phone(place, SILENCE, 0, wait)
    graph.end(place, wait)
    graph.end(silent, 0.0)
    return graph.fst()


class _Graph:
    """A state is followed by the self-loop of the HMM state before it; leaving it costs what not looping does."""

    def __init__(self, model: TransitionModel, scale: float):
        ids = np.arange(1, model.num_transition_ids + 1)
        columns = (model.phone(ids), model.hmm_state(ids), model.is_self_loop(ids), model.log_prob(ids))
        table = list(zip(ids.tolist(), *(column.tolist() for column in columns), strict=True))
        self._loop = {(phone, state): (number, log) for number, phone, state, loops, log in table if loops}
        self._on = {(phone, state): number for number, phone, state, loops, _ in table if not loops}
        self._states = max(state for _, state in self._on) + 1
        self._scale, self.start = scale, 0
        self._leaving = [0.0]
        self._arcs: list[tuple[int, int, int, int, float]] = []
        self._loops: list[tuple[int, int, int, int, float]] = []  # behind the other arcs of their states
        self._ends: dict[int, float] = {}

    def phone(self, place: int, phone: int, word: int, cost: float, into: int | None = None) -> int:
        """Adds the HMM of a phone; `into` is the state behind another one of this phone, which it joins as early as it
        can."""
        for state in range(self._states):
            target = len(self._leaving) if into is None else into - self._states + 1 + state
            leaving = self._leaving[place]
            self._arcs.append((place, target, self._on[phone, state], word if state == 0 else 0, leaving + cost))
            if into is not None:
                return into
            loop, log = self._loop[phone, state]
            self._loops.append((target, target, loop, 0, -self._scale * log))
            self._leaving.append(-self._scale * math.log(1 - math.exp(log)))
            place, cost = target, 0.0
        return place

    def end(self, place: int, cost: float) -> None:
        self._ends[place] = self._leaving[place] + cost

    def fst(self) -> Fst:
        final = [self._ends.get(state, np.inf) for state in range(len(self._leaving))]
        src, dst, ilabel, olabel, cost = zip(*self._arcs, *self._loops, strict=True)
        return Fst.from_arcs(self.start, final, src, dst, ilabel, cost, olabel)
