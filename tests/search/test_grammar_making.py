"""Graphs prepared for grammars: the same sentences as with all calls written out, and state by state."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from nnet3.errors import ModelFormatError
from nnet3.kaldi_io import Fst
from nnet3.options import SearchOptions
from nnet3.speech.search.beam_search import BeamSearch
from nnet3.speech.search.grammar_graph import GrammarGraph
from nnet3.speech.search.grammar_making import prepared
from nnet3.speech.search.search_graph import SearchGraph
from tests.search.random_grammars import (
    BEGIN,
    BOS,
    CROSSES,
    END,
    LABELS,
    NAME,
    PHONES,
    PLACE,
    REENTER,
    ROWS,
    Builder,
    label,
    random_grammar,
    written_out,
)
from tests.seeds import RANDOM

WIDE = SearchOptions(beam=1000, lattice_beam=5)


class Unprepared(Builder):
    """Graphs as they are compiled: states have arcs to other graphs beside ordinary ones."""

    def call(self, src: int, nonterminal: int, phones: tuple[int, ...] = PHONES[:3]) -> int:
        back, inside = self.entered(REENTER)
        for phone in phones:
            self.arc(src, back, label(nonterminal, phone))
        return inside

    def leave(self, src: int) -> None:
        end = self.state()
        self.final[end] = 0.0
        for phone in PHONES[:2]:
            self.arc(src, end, label(END, phone))


@pytest.mark.parametrize("example", range(6))
def test_prepared_graphs_say_the_same(example: int) -> None:
    grammar = random_grammar(builder=Unprepared)
    parts = {symbol: prepared(fst, BOS) if fst.num_states else fst for symbol, fst in grammar.parts.items()}
    columns = np.arange(-1, LABELS - 1)
    made = GrammarGraph(grammar._replace(top=prepared(grammar.top, BOS), parts=parts), columns)
    scores = RANDOM.normal(size=(ROWS, LABELS - 1)).astype(np.float32)
    paths = []
    for graph in (SearchGraph(written_out(grammar, ROWS + 1), columns), made):
        search = BeamSearch(graph.begin(), WIDE)
        search.advance(scores)
        paths.append(search.best_path(use_final=True))
    expected, found = paths
    assert (expected is None) == (found is None)
    if expected is not None and found is not None:
        assert found.cost == pytest.approx(expected.cost, rel=1e-5)
        assert np.array_equal(found.words, expected.words)


def _fst(final: dict[int, float], *arcs: tuple[int, int, int, int, float]) -> Fst:
    src, dst, ilabel, olabel, cost = zip(*arcs, strict=True)
    states = 1 + max(*src, *dst)
    return Fst.from_arcs(0, [final.get(s, np.inf) for s in range(states)], src, dst, ilabel, cost, olabel)


def _arcs(fst: Fst) -> list[tuple[Any, ...]]:
    columns = fst.src, fst.dst, fst.ilabel, fst.olabel
    return [(*row, pytest.approx(cost, abs=1e-6)) for *row, cost in zip(*(c.tolist() for c in columns), fst.cost)]  # noqa: B905


def test_arcs_of_nonterminals_move_behind_arcs_of_their_own() -> None:
    """State 0 has an ordinary arc, two arcs to a name with word 7, and one to a place."""
    back = (2, 3, label(REENTER, 1), 0, 0.0)
    fst = _fst(
        {3: 0.5}, (0, 2, label(PLACE, 2), 0, 3.0), (0, 3, 4, 9, 0.25), (0, 2, label(NAME, 1), 7, 1.0),
        (0, 2, label(NAME, 2), 7, 2.0), back,
    )  # fmt: skip
    made = prepared(fst, BOS)
    both = -math.log(math.exp(-1) + math.exp(-2))
    assert _arcs(made) == [
        (0, 5, 0, 7, both), (0, 4, 0, 0, 3.0), (0, 3, 4, 9, 0.25),  # names come before places
        back,
        (4, 2, label(PLACE, 2), 0, 0.0),
        (5, 2, label(NAME, 1), 0, 1.0 - both), (5, 2, label(NAME, 2), 0, 2.0 - both),
    ]  # fmt: skip
    assert made.final.tolist() == [np.inf, np.inf, np.inf, 0.5, CROSSES, CROSSES]


def test_ends_cost_nothing_and_words_come_before() -> None:
    fst = _fst(
        {2: 0.5, 3: 0.0}, (0, 1, label(BEGIN, 1), 0, 0.0), (1, 2, label(END, 1), 0, 1.0),
        (1, 3, label(END, 2), 0, 2.0),
    )  # fmt: skip
    made = prepared(fst, BOS)
    assert _arcs(made) == [
        (0, 1, label(BEGIN, 1), 0, 0.0), (1, 4, label(END, 1), 0, 1.5), (1, 3, label(END, 2), 0, 2.0)
    ]  # fmt: skip
    assert made.final.tolist() == [np.inf, CROSSES, 0.5, 0.0, 0.0]
    word = _fst({2: 0.5}, (0, 1, label(BEGIN, 1), 0, 0.0), (1, 2, label(END, 1), 8, 1.0))
    assert _arcs(prepared(word, BOS)) == [
        (0, 1, label(BEGIN, 1), 0, 0.0), (1, 3, 0, 8, 1.0), (3, 4, label(END, 1), 0, 0.5)
    ]  # fmt: skip


def test_a_graph_is_entered_by_one_arc_behind_a_phone() -> None:
    fst = _fst(
        {2: 0.0}, (0, 1, label(BEGIN, 1), 5, 1.0), (0, 2, label(BEGIN, 2), 0, 0.5), (0, 2, label(BEGIN, 1), 6, 1.0),
        (1, 2, 3, 0, 0.0),
    )  # fmt: skip
    made = prepared(fst, BOS)
    half = math.log(2)
    assert _arcs(made) == [
        (0, 3, label(BEGIN, 1), 0, 1 - half), (0, 2, label(BEGIN, 2), 0, 0.5), (1, 2, 3, 0, 0.0),
        (3, 1, 0, 5, half), (3, 2, 0, 6, half),
    ]  # fmt: skip


def test_a_graph_without_nonterminals_stays() -> None:
    fst = _fst({1: 0.5}, (0, 1, 3, 4, 0.25))
    assert _arcs(prepared(fst, BOS)) == _arcs(fst)


@pytest.mark.parametrize(
    ("arcs", "message"),
    [
        ([(0, 1, label(NAME, 1), 0, 0.0)], "no arc returns to the graph behind nonterminal 54"),
        ([(0, 1, 1, 0, 0.0), (1, 2, label(BEGIN, 1), 0, 0.0)], "state 1 is entered .* but is not the start"),
        ([(0, 1, label(BEGIN, 1), 0, 0.0), (0, 1, 4, 0, 0.0)], "state 0 has arcs that enter the graph, and others"),
        ([(0, 1, label(END, 1), 0, 0.0), (1, 2, 4, 0, 0.0)], "state 1, from where the graph is left, is not an end"),
        ([(0, 1, label(BOS, 1), 0, 0.0)], "is of no nonterminal: is 50 #nonterm_bos"),
    ],
)
def test_graphs_that_cannot_be_prepared(arcs: list[tuple[int, int, int, int, float]], message: str) -> None:
    with pytest.raises(ModelFormatError, match=message):
        prepared(_fst({2: 0.0}, *arcs), BOS)
    with pytest.raises(ModelFormatError, match="has no states"):
        prepared(Fst.empty(), BOS)
    with pytest.raises(ModelFormatError, match="prepared for grammars already"):
        prepared(_fst({1: CROSSES}, (0, 1, 3, 4, 0.25)), BOS)
