"""Decoding graphs as the search reads them."""

from __future__ import annotations

import numpy as np
import pytest

from nnet3.errors import ModelFormatError
from nnet3.kaldi_io import Fst
from nnet3.speech.search.search_graph import SearchGraph, arcs_between, arcs_leaving, epsilons_first
from tests.asr.slow_search import random_graph
from tests.seeds import RANDOM


def test_arcs_with_and_without_a_row() -> None:
    for _ in range(10):
        fst = random_graph(RANDOM)
        graph = SearchGraph(fst)
        states = RANDOM.integers(0, graph.num_states, 5)
        for found, takes_row in ((graph.emitting_arcs(states), True), (graph.epsilon_arcs(states), False)):
            listed = [
                (place, int(fst.olabel[arc]), float(fst.cost[arc]), int(fst.dst[arc]))
                for place, state in enumerate(states.tolist())
                for arc in range(fst.offsets[state], fst.offsets[state + 1])
                if (fst.ilabel[arc] > 0) == takes_row
            ]
            columns = graph.olabel[found.arc], graph.cost[found.arc], graph.dst[found.arc]
            assert listed == list(zip(found.position.tolist(), *(each.tolist() for each in columns), strict=True))
        assert graph.begin() is graph


def test_epsilons_come_first() -> None:
    fst = epsilons_first(random_graph(RANDOM))
    assert epsilons_first(fst) is fst
    for state in range(fst.num_states):
        takes_row = fst.ilabel[fst.offsets[state] : fst.offsets[state + 1]] > 0
        assert (np.diff(takes_row.astype(int)) >= 0).all()


@pytest.mark.parametrize("in_place", [False, True])
def test_only_states_with_late_epsilons_change(in_place: bool) -> None:
    """Arcs keep their order otherwise; the FST stays one if its arrays may be changed and can be."""
    for example in range(20):
        fst = random_graph(RANDOM, 1 + example)
        before = [column.copy() for column in (fst.ilabel, fst.olabel, fst.cost, fst.dst)]
        src, arcs = fst.src, np.arange(fst.num_arcs)
        order = sorted(arcs.tolist(), key=lambda arc: (src[arc], fst.ilabel[arc] > 0, arc))
        fst.dst.flags.writeable = example % 2 == 0
        changed = epsilons_first(fst, in_place)
        after = changed.ilabel, changed.olabel, changed.cost, changed.dst
        assert all(np.array_equal(new, old[order]) for new, old in zip(after, before, strict=True))
        assert (changed is fst) == (order == arcs.tolist() or (in_place and example % 2 == 0))


def test_labels_that_are_one_array_change_once() -> None:
    acceptor = Fst.from_arcs(0, [0.0], [0, 0, 0], [0, 0, 0], [2, 0, 1], [0.1, 0.2, 0.3])
    assert acceptor.ilabel is acceptor.olabel
    changed = epsilons_first(acceptor, in_place=True)
    assert (changed.ilabel.tolist(), changed.olabel.tolist()) == ([0, 2, 1], [0, 2, 1])


def test_a_graph_may_take_an_fst_over() -> None:
    fst = random_graph(RANDOM, 20)
    kept, graph = SearchGraph(fst), SearchGraph(fst, takes_over=True)
    states = np.arange(graph.num_states)
    for mine, theirs in ((kept.emitting_arcs, graph.emitting_arcs), (kept.epsilon_arcs, graph.epsilon_arcs)):
        assert all(np.array_equal(*pair) for pair in zip(mine(states), theirs(states), strict=True))
    assert np.array_equal(kept.cost, graph.cost)


def test_ranges_of_arcs() -> None:
    found = arcs_between(np.array([4, 2, 9]), np.array([6, 2, 10]))
    assert (found.arc.tolist(), found.position.tolist()) == ([4, 5, 9], [0, 0, 2])
    assert arcs_leaving(np.array([0, 2, 2, 3]), np.array([2, 0])).arc.tolist() == [2, 0, 1]
    assert len(arcs_between(np.zeros(0, int), np.zeros(0, int)).arc) == 0


def test_labels_without_a_column() -> None:
    fst = Fst.from_arcs(0, [0.0], [0, 0], [0, 0], [1, 3], [0.0, 0.0])
    with pytest.raises(
        ModelFormatError, match="input label 3, but the model has 2 transition-ids: does the graph belong"
    ):
        SearchGraph(fst, [-1, 0, 1])
    with pytest.raises(ModelFormatError, match="input label 2 takes column -1 of the scores"):
        SearchGraph(fst, [-1, 0, -1, 1])
