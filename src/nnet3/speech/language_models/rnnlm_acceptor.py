"""RnnlmAcceptor: an RNNLM as an acceptor of words, with histories merged by their last words."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from nnet3.errors import check_kind
from nnet3.speech.arrays.aliases import Integers, Singles
from nnet3.speech.language_models.rnnlm import Rnnlm
from nnet3.speech.language_models.word_acceptor import NativeModel, StateNumbers, WordAcceptor, WordArcs

_START = -1  # a key that no other state has


class RnnlmAcceptor(WordAcceptor):
    """States are histories; the cost of a word is -log p(word | history), and that of ending -log p(</s> | history).

    With `max_ngram_order` N > 0 a state is the last N - 1 words, and keeps the network's state of the first history
    that came there; with N <= 0 every history is a state (facts: rescoring 2.4). All words of the model have arcs;
    others raise ArgumentError. States are for one lattice: take a new acceptor for the next.
    """

    def __init__(self, rnnlm: Rnnlm, max_ngram_order: int = 3) -> None:
        check_kind(rnnlm, Rnnlm, "what an RnnlmAcceptor follows", "an Rnnlm")
        check_kind(max_ngram_order, int, "max_ngram_order", "an integer")
        self._order, self._num_words, self._eos = max_ngram_order, rnnlm.num_words, rnnlm.options.eos_symbol
        self._histories = rnnlm.histories()
        self._numbers = StateNumbers()
        self._words_kept: dict[tuple[int, ...], int] = {(): 0}
        self._kept_words: list[tuple[int, ...]] = [()]
        start = rnnlm.options.bos_symbol
        self._numbers.of(start if max_ngram_order >= 2 else _START)
        self._kept_of = [self._keep((start,))]

    def arcs(self, states: Integers, words: Integers) -> WordArcs:
        cost = _costs(self._histories.log_probs(states, words))
        return WordArcs(self._next(states.astype(np.int64), words.astype(np.int64)), cost)

    def final_costs(self, states: Integers) -> Singles:
        return _costs(self._histories.log_probs(states, np.full(len(states), self._eos)))

    def arc(self, state: int, word: int) -> tuple[int, float] | None:
        """Returns the next state and the cost of one pair, as `arcs` does, without arrays."""
        cost = -self._histories.log_prob(state, word)
        number = self._numbers.of(self._key(state, self._kept_of[state], word))
        if number == len(self._kept_of):
            self._histories.extend_one(state, word)
            self._kept_of.append(self._keep((*self._kept_words[self._kept_of[state]], word)))
        return number, cost

    def final_cost(self, state: int) -> float:
        """Returns the cost of ending in one state, as `final_costs` does, without arrays."""
        return -self._histories.log_prob(state, self._eos)

    def native(self) -> list[NativeModel]:
        """Returns the model for native code that merges histories of two words or more, before any arc is made."""
        is_new = len(self._histories) == 1
        return self._histories.native(self._order - 1) if self._order > 1 and is_new else []

    def _key(self, state: Any, kept: Any, word: Any) -> Any:
        """Returns what equal next states have in common, of numbers or of arrays."""
        if self._order <= 0:
            return state * self._num_words + word
        return kept * self._num_words + word if self._order > 1 else 0 * word

    def _next(self, states: Integers, words: Integers) -> Integers:
        """Returns the states after words; of those with equal keys the first is made."""
        keys = self._key(states, np.array(self._kept_of, np.int64)[states], words)
        known = len(self._numbers)
        numbers = self._numbers.of_all(keys)
        new, first = np.unique(numbers, return_index=True)
        first = first[new >= known]
        if len(first):
            self._histories.extend(states[first], words[first])
            before = [self._kept_words[self._kept_of[state]] for state in states[first].tolist()]
            self._kept_of += [self._keep((*b, w)) for b, w in zip(before, words[first].tolist(), strict=True)]
        return numbers

    def _keep(self, words: tuple[int, ...]) -> int:
        """Returns the number of a state's last N - 2 words, the part that next states keep."""
        last = words[len(words) - min(len(words), self._order - 2) :] if self._order > 2 else ()
        number = self._words_kept.setdefault(last, len(self._kept_words))
        if number == len(self._kept_words):
            self._kept_words.append(last)
        return number


def _costs(log_probs: Tensor) -> Singles:
    costs: Singles = (-log_probs).to("cpu", torch.float32).numpy()
    return costs
