"""Decoding graphs as the search reads them."""

from __future__ import annotations

import numpy as np
import pytest

from nnet3.errors import ModelFormatError
from nnet3.kaldi_io import Fst
from nnet3.speech.arrays.arcs import arcs_between, arcs_leaving
from nnet3.speech.search.search_graph import SearchGraph
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


def test_a_label_beyond_all_models_makes_no_table() -> None:
    """As in a damaged file: 16 GB otherwise."""
    fst = Fst.from_arcs(0, [np.inf, 0.0], [0], [1], [2**31 - 1], [0.0])
    with pytest.raises(ModelFormatError, match="input label 2147483647, and no scores have more than 16777216 columns"):
        SearchGraph(fst)
