"""Back-off models and grammars: costs by all ways through them."""

from __future__ import annotations

import numpy as np
import pytest

from nnet3.asr.grammar import phrase_model
from nnet3.asr.language_model import BackoffModel
from nnet3.errors import ArgumentError, ModelFormatError
from nnet3.kaldi_io import Fst
from tests.asr.toy_lookahead import WORDS, bigram, cost_of_words
from tests.seeds import RANDOM


def test_words_one_after_the_other() -> None:
    for _ in range(10):
        model = bigram()
        words = tuple(RANDOM.integers(1, WORDS + 1, 4).tolist())
        state, cost = np.array([model.start]), np.zeros(1)
        for word in words:
            steps = model.read(state, np.full(len(state), word))
            state, cost = steps.state, cost[steps.place] + steps.cost
        assert (cost + model.end(state)).min() == pytest.approx(cost_of_words(model, words), abs=1e-5)


def test_what_a_state_reads() -> None:
    model = bigram()
    states, begin, end = RANDOM.integers(0, WORDS + 1, 30), *np.sort(RANDOM.integers(0, WORDS + 4, (2, 30)), axis=0)
    found = model.reads_any(states, begin, end)
    for state, first, last, reads in zip(states, begin, end, found, strict=True):
        words = np.arange(first, last)
        assert reads == (len(model.read(np.full(len(words), state), words).place) > 0)
    assert np.array_equal(np.flatnonzero(model.word_costs(WORDS + 3) < np.inf), np.arange(1, WORDS + 1))


def test_a_grammar_counts_what_follows_what() -> None:
    model = phrase_model([[1, 2], [1, 3]])
    half = -np.log(0.5)
    assert cost_of_words(model, (1, 2)) == pytest.approx(-np.log(0.5 * 2 / 6) - np.log(0.5 * 1 / 2) - np.log(0.5))
    assert cost_of_words(model, (1, 3)) == cost_of_words(model, (1, 2))
    assert cost_of_words(model, (2,)) == pytest.approx(-np.log(0.5 * 1 / 6) - np.log(0.5))
    assert cost_of_words(model, ()) == pytest.approx(-np.log(0.5 * 2 / 6))
    expected = -np.log(0.5 / 6) + half - np.log(0.5 * 2 / 6) + half - np.log(0.5 * 2 / 6)
    assert cost_of_words(model, (2, 1)) == pytest.approx(expected)
    with pytest.raises(ArgumentError, match="at least one word that the model knows"):
        phrase_model([])


@pytest.mark.parametrize(
    ("arcs", "message"),
    [
        ([(0, 0, 1, 1.0), (0, 0, 1, 2.0)], "a state of the language model has two arcs for a word"),
        ([(0, 1, 0, 1.0), (0, 0, 0, 2.0)], "a state of the language model has two back-offs"),
    ],
)
def test_models_that_are_none(arcs: list[tuple[int, int, int, float]], message: str) -> None:
    src, dst, label, cost = zip(*arcs, strict=True)
    with pytest.raises(ModelFormatError, match=message):
        BackoffModel(Fst.from_arcs(0, [0.0, 0.0], src, dst, label, cost))


def test_back_offs_that_go_round() -> None:
    model = BackoffModel(Fst.from_arcs(0, [0.0, 0.0], [0, 1], [1, 0], [0, 0], [1.0, 1.0]))
    with pytest.raises(ModelFormatError, match="go round in a circle"):
        model.end(np.array([0]))
