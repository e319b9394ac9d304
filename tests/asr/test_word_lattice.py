"""Lattices of words: the same sequences of words as the search's lattice, each once, with its best path."""

from __future__ import annotations

import numpy as np
import pytest

from nnet3.asr.beam_search import BeamSearch
from nnet3.asr.search_graph import SearchGraph
from nnet3.asr.word_lattice import word_lattice
from nnet3.kaldi_io import Fst
from nnet3.options import DecodingOptions
from tests.asr.slow_search import best_of_words, paths_of, random_graph
from tests.seeds import RANDOM


@pytest.mark.parametrize("beam", [1.0, 3.0, 100.0])
def test_each_sequence_of_words_once(beam: float) -> None:
    for _ in range(12):
        fst = random_graph(RANDOM)
        scores = (2 * RANDOM.normal(size=(4, 4))).astype(np.float32)
        search = BeamSearch(SearchGraph(fst), DecodingOptions(beam=1000, lattice_beam=1000))
        search.advance(scores)
        raw = search.lattice()
        assert raw is not None
        found = paths_of(word_lattice(raw, beam))
        assert all(len(paths) == 1 for paths in found.values())
        expected = best_of_words(fst, scores)
        most = min(cost for cost, _ in expected.values()) + beam
        inside = {words for words, (cost, _) in expected.items() if cost <= most - 0.01}
        assert inside <= set(found)
        for words, [(cost, labels)] in found.items():
            assert cost >= expected[words][0] - 1e-3
            if words in inside:
                assert cost == pytest.approx(expected[words][0], abs=1e-3)
            assert len(labels) == len(scores)


def test_the_transition_ids_are_those_of_the_best_path() -> None:
    fst = random_graph(RANDOM, states=10)
    scores = (2 * RANDOM.normal(size=(12, 4))).astype(np.float32)
    search = BeamSearch(SearchGraph(fst), DecodingOptions(beam=1000, lattice_beam=3))
    search.advance(scores)
    raw, path = search.lattice(), search.best_path(use_final=True)
    assert raw is not None
    assert path is not None
    found = paths_of(word_lattice(raw, 3))
    [(cost, labels)] = found[tuple(path.words.tolist())]
    assert labels == tuple(path.transition_ids.tolist())
    assert cost == pytest.approx(path.cost, abs=1e-4)


def test_silence_alone() -> None:
    fst = Fst.from_arcs(0, [0.5], [0], [0], [1], [0.25], [0])
    search = BeamSearch(SearchGraph(fst), DecodingOptions())
    search.advance(np.zeros((3, 1), np.float32))
    raw = search.lattice()
    assert raw is not None
    lattice = word_lattice(raw, 10)
    assert paths_of(lattice) == {(): [(pytest.approx(1.25), (1, 1, 1))]}
