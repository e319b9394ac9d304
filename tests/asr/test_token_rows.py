"""Tokens that are forgotten, and that move to another composition: the search goes on as if nothing was."""

from __future__ import annotations

import numpy as np
import pytest

from nnet3.asr.beam_search import BeamSearch
from nnet3.asr.composition import LookaheadSearch
from nnet3.asr.search_graph import SearchGraph
from nnet3.options import DecodingOptions
from tests.asr.slow_search import paths_of, random_graph
from tests.asr.toy_lookahead import LABELS, bigram, lookahead_graph, random_scores
from tests.seeds import RANDOM

OPTIONS = DecodingOptions(beam=1000, lattice_beam=4, prune_interval=3)


def _same(one: BeamSearch, other: BeamSearch) -> None:
    for use_final in (False, True):
        a, b = one.best_path(use_final), other.best_path(use_final)
        assert a is not None
        assert b is not None
        assert a.cost == b.cost
        assert np.array_equal(a.transition_ids, b.transition_ids)
        assert np.array_equal(a.words, b.words)
        assert np.array_equal(a.word_rows, b.word_rows)
        if not use_final:
            first = int(RANDOM.integers(one.num_rows + 2))
            ids, states = other.newest(first) or ((), ())
            assert np.array_equal(ids, a.transition_ids[first:])
            assert np.array_equal(states, b.states[first:])
    assert one.relative_cost == other.relative_cost


def test_the_best_path_is_the_same_when_rows_are_forgotten() -> None:
    for _ in range(6):
        graph = SearchGraph(random_graph(RANDOM, states=8))
        whole, short = BeamSearch(graph, OPTIONS), BeamSearch(graph, OPTIONS)
        for end in (2, 5, 9, 10, 17):
            scores = (2 * RANDOM.normal(size=(end - whole.num_rows, 4))).astype(np.float32)
            whole.advance(scores)
            short.advance(scores)
            whole.prune()
            short.prune()
            short.forget(int(RANDOM.integers(max(short.tokens.first, 1), end + 1)), graph)
            _same(whole, short)
            assert short.tokens.num_links <= whole.tokens.num_links


def test_the_lattice_behind_a_row_begins_with_what_the_tokens_cost() -> None:
    graph = SearchGraph(random_graph(RANDOM, states=6))
    search = BeamSearch(graph, DecodingOptions(beam=1000, lattice_beam=1000))
    search.advance(RANDOM.normal(size=(6, 4)).astype(np.float32))
    whole, rest = search.lattice(), search.lattice(first=3)
    assert whole is not None
    assert rest is not None
    assert rest.best_cost == pytest.approx(whole.best_cost)
    assert (rest.row_of_state[0], rest.num_rows) == (2, 6)
    lengths = {len(ids) for paths in paths_of(rest).values() for _, ids in paths}
    assert lengths == {3}


def test_another_composition_changes_nothing() -> None:
    search = LookaheadSearch(lookahead_graph(), bigram(), np.arange(-1, LABELS))
    stays, moves = (BeamSearch(search.begin(), OPTIONS) for _ in range(2))
    for number in range(12):
        scores = random_scores(2)
        stays.advance(scores)
        moves.advance(scores)
        stays.prune()
        moves.prune()
        if number % 3 == 2:
            moves.forget(moves.num_rows - 1, search._new())
            _same(stays, moves)
            assert moves.graph is not stays.graph
