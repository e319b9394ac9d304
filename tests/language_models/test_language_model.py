"""Back-off models and grammars: costs by all ways through them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, strategies as st

from nnet3.base.kaldi_io.graph_file import load_graph
from nnet3.errors import ArgumentError, ModelFormatError
from nnet3.kaldi_io import Fst
from nnet3.speech.language_models.language_model import BackoffModel, NgramModel, model_of_graph, phrase_model
from tests.asr.toy_lookahead import WORDS, bigram, cost_of_words
from tests.kaldi_io.graph_bytes import ngram_bytes
from tests.seeds import RANDOM


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


def test_arcs_may_come_in_any_order() -> None:
    model = BackoffModel(Fst.from_arcs(0, [0.0], [0, 0, 0], [0, 0, 0], [1, 3, 2], [0.5, 1.5, 1.0]))
    assert (model.words.tolist(), model.cost.tolist()) == ([1, 2, 3], [0.5, 1.0, 1.5])


def test_a_file_of_ngrams_is_the_model_of_its_arcs(tmp_path: Path) -> None:
    histories = [(), *((word,) for word in range(4)), (0, 1), (2, 1), (1, 3), (0, 2, 1)]
    ngrams = {each: {word: float(RANDOM.random()) for word in range(1, 5)} for each in histories}
    finals = {(): 0.5, (2, 1): 0.25}
    (tmp_path / "G.fst").write_bytes(ngram_bytes(ngrams, finals, dict.fromkeys(histories, 0.5)))
    graph = load_graph(tmp_path / "G.fst")
    found, expected = model_of_graph(graph), BackoffModel(graph.fst)
    assert isinstance(found, NgramModel)
    assert found.start == expected.start
    for name in ("final", "key", "first_arc", "cost", "shorter", "back_off_cost"):
        mine, theirs = getattr(found, name), getattr(expected, name)
        assert mine.dtype == theirs.dtype
        assert np.array_equal(mine, theirs)
    arcs = np.arange(len(found.cost))
    assert np.array_equal(found.dst(arcs), expected.dst(arcs))
    for arc in arcs:
        assert np.array_equal(found.dst(arc[None]), expected.dst(arc[None]))


def test_a_grammar_counts_what_follows_what() -> None:
    model = phrase_model([[1, 2], [1, 3]])
    half = -np.log(0.5)
    assert cost_of_words(model, (1, 2)) == pytest.approx(-np.log(0.5 * 2 / 6) - np.log(0.5 * 1 / 2) - np.log(0.5))
    assert cost_of_words(model, (1, 3)) == cost_of_words(model, (1, 2))
    assert cost_of_words(model, (2,)) == pytest.approx(-np.log(0.5 * 1 / 6) - np.log(0.5))
    assert cost_of_words(model, ()) == pytest.approx(-np.log(0.5 * 2 / 6))
    expected = -np.log(0.5 / 6) + half - np.log(0.5 * 2 / 6) + half - np.log(0.5 * 2 / 6)
    assert cost_of_words(model, (2, 1)) == pytest.approx(expected)
    with pytest.raises(ArgumentError, match="a grammar needs at least one phrase"):
        phrase_model([])


@given(st.lists(st.lists(st.integers(1, 3), max_size=3), min_size=1, max_size=6))
@example([[]])
@example([[1], []])
def test_all_phrases_are_counted(phrases: list[list[int]]) -> None:
    """A phrase counts with each pair of its words and with its end, also one without words."""
    follows: dict[int, list[int]] = {0: []}  # what follows each word; at the start and behind any word: 0
    for phrase in phrases:
        for before, word in zip([0, *phrase], [*phrase, 0], strict=True):
            follows.setdefault(before, []).append(word)
            follows[0] += [word] if before else []
    model = phrase_model(phrases)
    assert model.num_states == len(follows)
    assert sorted(set(model.words.tolist())) == sorted(set(follows[0]) - {0})
    states, expected = {0: model.start}, {}
    for word in set(follows[0]) - {0}:
        states[word] = int(model.dst(model.find(np.array([model.start]), np.array([word])))[0])
    for before, state in states.items():
        for word in set(follows[before]):
            expected[state, word] = -np.log(0.5 * follows[before].count(word) / len(follows[before]))
        assert model.final[state] == pytest.approx(expected.pop((state, 0), np.inf))
    found = {(key >> 32, key & 0xFFFFFFFF): cost for key, cost in zip(model.key, model.cost, strict=False)}
    assert found == pytest.approx(expected)


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
