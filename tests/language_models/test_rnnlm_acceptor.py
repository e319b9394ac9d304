"""RnnlmAcceptor: histories merged by their last words keep the network's state of the first that came."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nnet3.asr import RnnlmAcceptor
from nnet3.errors import ArgumentError
from tests.asr.small_rnnlm import WORDS, scores_of_whole, small_rnnlm
from tests.effort import at_night
from tests.seeds import shifted


class _Slow:
    """By the definition: a state is the words that count, and what the network read on the first way there."""

    def __init__(self, order: int) -> None:
        self._order = order
        self._states: list[tuple[tuple[int, ...], list[int]]] = [((1,), [])]

    def arc(self, state: int, word: int) -> tuple[int, float]:
        words, read = self._states[state]
        longer = (*words, word)
        if self._order > 0:
            longer = longer[len(longer) - min(len(longer), self._order - 1) :]
        known = [key for key, _ in self._states]
        if longer not in known:
            self._states.append((longer, [*read, word]))
        number = known.index(longer) if longer in known else len(known)
        return number, -scores_of_whole("lstm", read)[word]


@pytest.mark.parametrize("order", [-1, 1, *at_night(2), 3, *at_night(4)])
def test_arcs_are_those_of_the_definition(order: int) -> None:
    rng = np.random.default_rng(shifted(order + 2))
    slow, by_arrays = _Slow(order), RnnlmAcceptor(small_rnnlm("lstm"), order)
    by_pairs = RnnlmAcceptor(small_rnnlm("lstm"), order)
    states = np.zeros(1, np.int64)
    for _ in range(4):
        from_, words = rng.choice(states, 5), rng.integers(4, 7, 5)
        dst, cost = by_arrays.arcs(from_, words)
        for state, word, to, found in zip(from_.tolist(), words.tolist(), dst.tolist(), cost.tolist(), strict=True):
            number, expected = slow.arc(state, word)
            single = by_pairs.arc(state, word)
            assert single is not None
            assert (number, number) == (to, single[0])
            assert (found, single[1]) == (pytest.approx(expected, abs=2e-5), pytest.approx(expected, abs=2e-5))
        states = np.unique(np.append(states, dst))
    ends = by_arrays.final_costs(states)
    assert ends[0] == pytest.approx(-scores_of_whole("lstm", [])[2], abs=2e-5)
    assert by_pairs.final_cost(0) == pytest.approx(float(ends[0]), abs=2e-5)


@pytest.mark.parametrize("wrong", [None, "3", 2.5])
def test_arguments_of_other_kinds_are_refused(wrong: Any) -> None:
    with pytest.raises(ArgumentError, match="max_ngram_order must be an integer, got "):
        RnnlmAcceptor(small_rnnlm("tdnn"), max_ngram_order=wrong)
    with pytest.raises(ArgumentError, match="what an RnnlmAcceptor follows must be an Rnnlm, got "):
        RnnlmAcceptor(wrong)


def test_words_of_another_list_are_refused() -> None:
    acceptor = RnnlmAcceptor(small_rnnlm("tdnn"))
    with pytest.raises(ArgumentError, match="words are 1 to 8"):
        acceptor.arcs(np.array([0]), np.array([WORDS]))
    with pytest.raises(ArgumentError, match="words are 1 to 8"):
        acceptor.arc(0, 0)
