"""The search without native code: the steps with NumPy find what all paths of small graphs show."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from nnet3.options import DecodingOptions
from nnet3.speech.search import beam_search
from nnet3.speech.search.array_steps import ArraySteps
from nnet3.speech.search.beam_search import BeamSearch
from nnet3.speech.search.search_graph import SearchGraph
from tests.asr.slow_search import best_of_words, paths_of, random_graph
from tests.seeds import RANDOM


def test_a_wide_search_finds_the_best_path_of_all_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beam_search, "token_steps", ArraySteps)
    for _ in range(8):
        fst, scores = random_graph(RANDOM), (2 * RANDOM.normal(size=(int(RANDOM.integers(1, 5)), 4))).astype(np.float32)
        search = BeamSearch(SearchGraph(fst), DecodingOptions(beam=1000, lattice_beam=1000, prune_interval=3))
        search.advance(scores)
        lattice, expected = search.lattice(), best_of_words(fst, scores)
        assert lattice is not None
        found = {words: min(paths)[0] for words, paths in paths_of(lattice).items()}
        assert found == pytest.approx({words: cost for words, (cost, _) in expected.items()}, abs=1e-5)


def test_the_best_arcs_lead_back_along_the_best_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A token costs what its best arc's source costs, and the arc; `within` says in which row the source is."""
    monkeypatch.setattr(beam_search, "token_steps", ArraySteps)
    graph = SearchGraph(random_graph(RANDOM, states=40))
    search = BeamSearch(graph, DecodingOptions(beam=9, prune_interval=1000))
    search.advance((2 * RANDOM.normal(size=(9, 4))).astype(np.float32))
    rows = search.tokens._rows
    for before, row in pairwise(rows):
        assert np.array_equal(row.within, graph.ilabel[row.back_arc] == 0)
        own = np.flatnonzero(row.within)
        assert row.cost[own] == pytest.approx(row.cost[row.back_src[own]] + graph.cost[row.back_arc[own]])
        links = row.emitting
        best = np.full(len(row.state), np.inf)
        np.minimum.at(best, links.dst, before.cost[links.src] + links.cost)
        assert row.cost[~row.within] == pytest.approx(best[~row.within])
