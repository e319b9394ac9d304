"""Graphs of transcripts out of a recognizer's graph, of either kind."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from nnet3.asr import Model
from nnet3.errors import TrainingError
from nnet3.kaldi_io import Fst
from nnet3.speech.asr.decoding import DecodingGraph
from nnet3.speech.search.search_graph import SearchGraph
from nnet3.speech.tuning.spoken_graphs import SpokenGraphs
from tests.asr.small_recognizer import write_recognizer

pytest.importorskip("kaldifst")
Labels = tuple[int, ...]


@pytest.fixture(params=[False, True], ids=["HCLG", "look-ahead"])
def graph(tmp_path: Path, request: pytest.FixtureRequest) -> DecodingGraph:
    return Model(write_recognizer(tmp_path / "model", lookahead=request.param)).graph


def paths_of(fst: Fst, most_arcs: int) -> dict[tuple[Labels, Labels], float]:
    """The least cost of each pair of transition-ids and words on a path of so many arcs, or fewer, to an end."""
    found: dict[tuple[Labels, Labels], float] = {}
    waiting: list[tuple[int, Labels, Labels, float, int]] = [(fst.start, (), (), 0.0, 0)]
    while waiting:
        state, ids, words, cost, arcs = waiting.pop()
        if fst.final[state] < np.inf:
            whole = cost + float(fst.final[state])
            found[ids, words] = min(whole, found.get((ids, words), np.inf))
        if arcs == most_arcs:
            continue
        for arc in range(fst.offsets[state], fst.offsets[state + 1]):
            label, word = int(fst.ilabel[arc]), int(fst.olabel[arc])
            new = (*ids, label) if label else ids, (*words, word) if word else words
            waiting.append((int(fst.dst[arc]), *new, cost + float(fst.cost[arc]), arcs + 1))
    return found


def test_the_paths_are_those_of_the_recognizer_with_these_words(graph: DecodingGraph) -> None:
    wanted = tuple(graph.words.labels[word] for word in ("high", "low"))
    found = paths_of(SpokenGraphs(graph, ["low", "high"]).make(["high", "low"]), 7)
    expected = {key: cost for key, cost in paths_of(graph.fst, 7).items() if key[1] == wanted}
    assert found.keys() == expected.keys()
    assert len(found) > 10
    np.testing.assert_allclose([found[key] for key in expected], list(expected.values()), rtol=1e-5)


def test_silence_alone(graph: DecodingGraph) -> None:
    found = paths_of(SpokenGraphs(graph, []).make([]), 6)
    assert {words for _, words in found} == {()}
    assert max(len(ids) for ids, _ in found) > 2


def test_unknown_words_are_counted(graph: DecodingGraph) -> None:
    graphs = SpokenGraphs(graph, ["high", "hi", "low", "hi", "<eps>"])
    assert graphs.unknown == {"hi": 2, "<eps>": 1}


def test_words_that_the_graph_does_not_have_in_this_order(graph: DecodingGraph) -> None:
    """A graph of one word at most: nothing can follow it."""
    src, dst, ilabel, olabel = [0, 1], [1, 1], [4, 3], [1, 0]
    fst = Fst.from_arcs(0, [np.inf, 0], src, dst, ilabel, None, olabel)
    graphs = SpokenGraphs(replace(graph, search=SearchGraph(fst)), ["high", "low"])
    assert graphs.make(["high"]).num_states
    for words in (["high", "high"], ["low"], []):
        with pytest.raises(TrainingError, match="no path with these words"):
            graphs.make(words)
