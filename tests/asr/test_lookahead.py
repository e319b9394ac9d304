"""Graphs made of look-ahead graphs and language models, against all paths of both."""

from __future__ import annotations

import numpy as np
import pytest

from nnet3.asr.grammar import phrase_model
from nnet3.asr.language_model import BackoffModel
from nnet3.asr.lookahead import composed, first_pass
from nnet3.errors import ModelFormatError
from nnet3.kaldi_io import Fst
from tests.asr.slow_search import best_of_words
from tests.asr.toy_lookahead import (
    WORDS,
    bigram,
    expected_costs,
    lattice_of,
    least_costs,
    lookahead_graph,
    plain_graph,
    random_scores,
)


def test_a_composed_graph_has_all_words_at_their_cost() -> None:
    for _ in range(8):
        graph, model, scores = lookahead_graph(), bigram(), random_scores(4)
        found, expected = least_costs(lattice_of(composed(graph, model), scores)), expected_costs(graph, model, scores)
        assert set(found) == set(expected)
        for words, cost in expected.items():
            assert found[words] == pytest.approx(cost, abs=1e-4)


def test_costs_of_a_first_pass() -> None:
    """A path costs what its words do without a history, less the cost of the start, which is that of any word."""
    graph, model, scores = lookahead_graph(), bigram(), random_scores(3)
    first = first_pass(graph, model)
    plain = best_of_words(plain_graph(graph), scores)
    for words, cost in least_costs(lattice_of(first.fst, scores)).items():
        alone = plain[words][0] + first.cost_of_word[list(words)].sum() + first.end_cost - first.start_cost
        assert cost == pytest.approx(alone, abs=1e-4)
    next_costs = np.array([*first.cost_of_word[1 : WORDS + 1], first.end_cost])
    assert first.start_cost == pytest.approx(-np.log(np.exp(-next_costs).sum()), abs=1e-6)


def test_a_composed_grammar_has_no_dead_ends() -> None:
    graph = lookahead_graph()
    fst = composed(graph, phrase_model([[2, 4]]))
    assert set(np.unique(fst.olabel)) == {0, 2, 4}
    assert ((np.diff(fst.offsets) > 0) | (fst.final < np.inf)).all()


def test_a_model_of_other_words() -> None:
    graph = lookahead_graph()
    with pytest.raises(ModelFormatError, match="has no word of the language model: do they belong together"):
        first_pass(graph, BackoffModel(Fst.from_arcs(0, [np.inf, 0], [0], [1], [WORDS + 9], [1.0])))
