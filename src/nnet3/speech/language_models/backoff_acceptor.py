"""Back-off models as word acceptors, by the exact reading: a word backs off only where it has no arc of its own."""

from __future__ import annotations

from functools import cache

import numpy as np

from nnet3.base.kaldi_io.fst import Fst
from nnet3.speech.arrays.aliases import Integers, Singles
from nnet3.speech.language_models.language_model import BackoffModel
from nnet3.speech.language_models.word_acceptor import NO_ARC, WordAcceptor, WordArcs


def words_of_grammar(fst: Fst) -> Fst:
    """Returns a grammar as an acceptor of its output labels: #0 on the input side becomes a back-off without label."""
    return fst if fst.is_acceptor else Fst(fst.start, fst.final, fst.offsets, fst.olabel, fst.olabel, fst.cost, fst.dst)


class BackoffAcceptor(WordAcceptor):
    """The acceptor of a model whose states have at most one arc for a word, and one back-off arc of label 0.

    The cost of a word is the cost of its arc; without an arc, the back-off cost plus the word's cost in the next
    state. The cost of ending is found alike (facts: rescoring.md, 2.3). Sums start at the shortest history, in float32.
    """

    def __init__(self, model: BackoffModel):
        self._model, self._count = model, model.num_states
        self._arc_of = cache(self._made_arc)

    def arcs(self, states: Integers, words: Integers) -> WordArcs:
        model, at = self._model, (states + self._model.start) % self._count
        found, back_offs = model.find(at, words.astype(np.int64)), [np.zeros(len(states), np.float32)]
        while (missing := np.flatnonzero((found < 0) & (model.shorter[at] >= 0))).size:
            back_offs.append(np.zeros(len(states), np.float32))
            back_offs[-1][missing] = model.back_off_cost[at[missing]]
            at[missing] = model.shorter[at[missing]]
            found[missing] = model.find(at[missing], words[missing].astype(np.int64))
        has_arc = found >= 0
        arc = np.where(has_arc, found, 0)
        cost = np.where(has_arc, np.append(model.cost, np.float32(0))[arc], np.float32(np.inf))
        for back_off in reversed(back_offs):
            cost = back_off + cost
        dst = np.full(len(arc), NO_ARC)
        dst[has_arc] = (model.dst(found[has_arc]) - model.start) % self._count
        return WordArcs(dst, cost)

    def final_costs(self, states: Integers) -> Singles:
        return np.array([self.final_cost(state) for state in states.tolist()], np.float32)

    def arc(self, state: int, word: int) -> tuple[int, float] | None:
        return self._arc_of(state, word)

    def _made_arc(self, state: int, word: int) -> tuple[int, float] | None:
        dst, cost = self.arcs(np.array([state]), np.array([word]))
        return None if dst[0] == NO_ARC else (int(dst[0]), float(cost[0]))

    def final_cost(self, state: int) -> float:
        model, at, back_offs = self._model, (state + self._model.start) % self._count, list[np.float32]()
        while model.final[at] == np.inf and model.shorter[at] >= 0:
            back_offs.append(model.back_off_cost[at])
            at = int(model.shorter[at])
        cost = model.final[at]
        for back_off in reversed(back_offs):
            cost = back_off + cost
        return float(cost)
