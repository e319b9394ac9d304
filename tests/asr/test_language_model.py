"""Back-off models and grammars: costs by all ways through them."""

from __future__ import annotations

import numpy as np
import pytest

from nnet3.asr.language_model import BackoffModel, phrase_model
from nnet3.errors import ArgumentError, ModelFormatError
from nnet3.kaldi_io import Fst
from tests.asr.toy_lookahead import WORDS, bigram, cost_of_words


def test_words_of_histories() -> None:
    model = bigram()
    assert model.num_states == WORDS + 1
    for state in range(model.num_states):
        words = model.words[model.first_arc[state] : model.first_arc[state + 1]]
        assert model.num_words(np.array([state])) == len(words)
        found = model.find(np.full(WORDS + 2, state), np.arange(1, WORDS + 3))
        assert np.array_equal(1 + np.flatnonzero(found >= 0), words)
        assert np.array_equal(model.word(found[found >= 0]), words)
        assert (model.shorter[state] == -1) == (state == 0)


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
    with pytest.raises(ModelFormatError, match="go round in a circle"):
        BackoffModel(Fst.from_arcs(0, [0.0, 0.0], [0, 1], [1, 0], [0, 0], [1.0, 1.0]))
