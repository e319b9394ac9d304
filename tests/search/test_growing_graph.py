"""Graphs made in the search: the same paths as in the graph that is there from the beginning."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from nnet3.kaldi_io import Fst
from nnet3.options import SearchOptions
from nnet3.speech.arrays.arcs import arcs_leaving
from nnet3.speech.search.beam_search import BeamSearch
from nnet3.speech.search.growing_graph import GrowingGraph
from nnet3.speech.search.search_graph import SearchGraph
from tests.asr.slow_search import random_graph
from tests.seeds import RANDOM

LABELS, ROWS = 4, 12
WIDE = SearchOptions(beam=1000, lattice_beam=6)


class Copied(GrowingGraph):
    """A graph whose states get numbers when they are met."""

    def __init__(self, fst: Fst):
        super().__init__(np.arange(-1, LABELS), LABELS - 1)
        self.fst, self.met = fst, [fst.start]
        self._add_states(fst.final[[fst.start]])

    def _make_arcs(self, states: np.ndarray) -> None:
        fst = self.fst
        arc, place = arcs_leaving(fst.offsets, np.array(self.met)[states])
        new = sorted(set(fst.dst[arc].tolist()) - set(self.met))
        self._add_states(fst.final[new])
        self.met += new
        number = np.array([self.met.index(state) for state in fst.dst[arc].tolist()], np.int64)
        self._keep_arcs(states, place, arc, fst.ilabel[arc], fst.olabel[arc], fst.cost[arc], number)


@pytest.mark.parametrize("example", range(20))
def test_the_same_paths_and_lattices(example: int) -> None:
    fst, scores = random_graph(RANDOM, 8), RANDOM.normal(size=(ROWS, LABELS)).astype(np.float32)
    known = BeamSearch(SearchGraph(fst), WIDE)
    growing = BeamSearch(Copied(fst).begin(), WIDE)
    for first in range(0, ROWS, 5):
        known.advance(scores[first : first + 5])
        growing.advance(scores[first : first + 5])
        best, other = known.best_path(), growing.best_path()
        assert (best is None) == (other is None)
        if best is not None and other is not None:
            assert other.cost == pytest.approx(best.cost, rel=1e-6)
    raw = [search.lattice() for search in (known, growing)]
    assert len({0 if each is None else len(each.src) for each in raw}) == 1


def test_arcs_are_made_once_and_those_without_a_row_first() -> None:
    fst = random_graph(RANDOM, 30)
    graph = Copied(fst)
    for _ in range(9):
        states = np.arange(graph.num_states)
        for arcs, is_epsilon in ((graph.epsilon_arcs, True), (graph.emitting_arcs, False)):
            arc, place = arcs(states)
            assert ((graph.ilabel[arc] == 0) == is_epsilon).all()
            assert (np.diff(place) >= 0).all()
    met = np.array(graph.met)
    assert graph.num_arcs == int(np.diff(fst.offsets)[met].sum())
    arc, place = graph.emitting_arcs(np.arange(graph.num_states))
    assert set(met[graph.dst[arc]]) <= set(fst.dst.tolist())


def test_searches_of_several_threads_share_a_graph() -> None:
    fst, scores = random_graph(RANDOM, 40), RANDOM.normal(size=(ROWS, LABELS)).astype(np.float32)
    graph, costs = Copied(fst), list[float]()

    def hear() -> None:
        search = BeamSearch(graph, WIDE)
        search.advance(scores)
        path = search.best_path()
        costs.append(np.inf if path is None else path.cost)

    threads = [threading.Thread(target=hear) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(costs) == 4
    assert costs == pytest.approx(4 * costs[:1])
