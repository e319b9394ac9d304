"""Look-ahead graphs composed with language models: against the rules one by one, and against all paths of both."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from nnet3.errors import ModelFormatError
from nnet3.kaldi_io import Fst
from nnet3.options import DecodingOptions
from nnet3.speech.language_models.language_model import BackoffModel, phrase_model
from nnet3.speech.lattices.raw_lattice import RawLattice
from nnet3.speech.search import composition
from nnet3.speech.search.beam_search import BeamSearch
from nnet3.speech.search.composition import Composition, LookaheadGraph, LookaheadSearch
from tests.asr.slow_composition import SlowComposition, State
from tests.asr.toy_lookahead import (
    LABELS,
    WORDS,
    bigram,
    expected_costs,
    least_costs,
    lookahead_graph,
    random_scores,
)
from tests.seeds import RANDOM

COLUMNS = np.arange(-1, LABELS)


def lattice_of(search: LookaheadSearch, scores: np.ndarray) -> RawLattice:
    beams = BeamSearch(search.begin(), DecodingOptions(beam=1000, lattice_beam=1000))
    beams.advance(scores)
    lattice = beams.lattice()
    assert lattice is not None
    return lattice


def arcs_of(made: Composition, state: int) -> list[tuple[int, int, float, int]]:
    states = np.array([state])
    arcs = np.concatenate([made.epsilon_arcs(states).arc, made.emitting_arcs(states).arc])
    columns = (made.ilabel[arcs], made.olabel[arcs], made.cost[arcs], made.dst[arcs])
    return list(zip(*(column.tolist() for column in columns), strict=True))


def compare(graph: LookaheadGraph, model: BackoffModel) -> int:
    """Compares all states with those by the rules; returns how many there are."""
    made, slow = LookaheadSearch(graph, model, COLUMNS).begin(), SlowComposition(graph, model)
    number: dict[State, int] = {slow.start: made.start}
    waiting = [slow.start]
    while waiting:
        state = waiting.pop()
        arcs, expected = arcs_of(made, number[state]), slow.arcs(state)
        assert [arc[:2] for arc in arcs] == [arc[:2] for arc in sorted(expected, key=lambda arc: arc[0] > 0)]
        assert made.final[number[state]] == pytest.approx(slow.final(state), abs=1e-5)
        for (*_, cost, dst), (*_, costs, target) in zip(arcs, sorted(expected, key=lambda a: a[0] > 0), strict=True):
            assert cost == pytest.approx(costs, abs=1e-5)
            if target not in number:
                number[target] = dst
                waiting.append(target)
            assert number[target] == dst
    assert len(set(number.values())) == len(number)
    return len(number)


def test_all_states_and_arcs() -> None:
    assert sum(compare(lookahead_graph(), bigram()) for _ in range(8)) > 200
    assert compare(lookahead_graph(), phrase_model([[2, 4], [1]])) > 5


def test_words_at_their_cost() -> None:
    """What is taken ahead is taken back, but for the steps in which it counts."""
    for _ in range(8):
        graph, model, scores = lookahead_graph(), bigram(), random_scores(4)
        found = least_costs(lattice_of(LookaheadSearch(graph, model, COLUMNS), scores))
        expected = expected_costs(graph, model, scores)
        assert set(found) <= set(expected)
        assert min(found, key=lambda words: found[words]) in expected
        for words, cost in found.items():
            assert cost == pytest.approx(expected[words], abs=8e-3)


def test_searches_share_what_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    search, scores = LookaheadSearch(lookahead_graph(), bigram(), COLUMNS), random_scores(5)
    made = search.begin()
    first = least_costs(lattice_of(search, scores))
    states = made.num_states
    assert least_costs(lattice_of(search, scores)) == first
    assert made.num_states == states > 1
    monkeypatch.setattr(composition, "_MOST_STATES", 1)
    assert search.begin() is not made
    assert least_costs(lattice_of(search, scores)) == first


def test_parts_that_do_not_belong_together() -> None:
    graph = lookahead_graph()
    other = BackoffModel(Fst.from_arcs(0, [np.inf, 0], [0], [1], [WORDS + 9], [1.0]))
    with pytest.raises(ModelFormatError, match="has no word of the language model: do they belong together"):
        LookaheadSearch(graph, other, COLUMNS)
    with pytest.raises(ModelFormatError, match=r"has input label \d, but the model has 0 transition-ids"):
        LookaheadSearch(graph, bigram(), COLUMNS[:1])


def test_a_label_beyond_all_others_takes_no_memory() -> None:
    """One damaged byte in a file makes such a label."""
    whole, damaged = lookahead_graph(), 50_000_000
    whole.fst.ilabel[0] = damaged
    tracemalloc.start()
    try:
        with pytest.raises(ModelFormatError, match=f"input label {damaged}, but the model has {LABELS} transition-ids"):
            LookaheadSearch(whole, bigram(), COLUMNS)
        assert tracemalloc.get_traced_memory()[1] < damaged
    finally:
        tracemalloc.stop()


def test_a_grammar_has_its_words_alone() -> None:
    search = LookaheadSearch(lookahead_graph(), bigram(), COLUMNS).with_model(phrase_model([[2, 4]]))
    found = least_costs(lattice_of(search, random_scores(int(RANDOM.integers(3, 6)))))
    assert {word for words in found for word in words} <= {2, 4}
