"""Graphs that call each other: the same as the graph with all calls written out, and grammars that cannot be."""

from __future__ import annotations

import math
from collections import deque
from typing import Any

import numpy as np
import pytest

from nnet3.errors import ModelFormatError
from nnet3.kaldi_io import Fst, Reader
from nnet3.options import SearchOptions
from nnet3.speech.search.beam_search import BeamSearch
from nnet3.speech.search.grammar_graph import Grammar, GrammarGraph, read_grammar
from nnet3.speech.search.search_graph import SearchGraph
from tests.asr.grammar_bytes import grammar_bytes
from tests.seeds import RANDOM

BOS, BEGIN, END, REENTER, NAME, PLACE, NOBODY = 50, 51, 52, 53, 54, 55, 56
PHONES, LABELS, ROWS, CROSSES = (1, 2, 3, BOS), 5, 9, 4096.0
WIDE = SearchOptions(beam=1000, lattice_beam=5)
Arc = tuple[int, int, int, int, float]


def label(symbol: int, phone: int) -> int:
    return 10_000_000 + 1000 * symbol + phone


class Builder:
    """A graph made state by state; crossings are as PrepareForGrammarFst leaves them."""

    def __init__(self) -> None:
        self.arcs, self.final = list[Arc](), dict[int, float]()
        self.states = 0

    def state(self) -> int:
        self.states += 1
        return self.states - 1

    def arc(self, src: int, dst: int, ilabel: int, olabel: int = 0) -> None:
        self.arcs.append((src, dst, ilabel, olabel, float(RANDOM.uniform(0.1, 2))))

    def entered(self, symbol: int, phones: tuple[int, ...] = PHONES) -> tuple[int, int]:
        """A state that is entered behind some phones, and a state behind it."""
        entry, inside = self.state(), self.state()
        for phone in phones:
            between = self.state()
            self.arc(entry, between, label(symbol, phone), int(RANDOM.integers(0, 3)))
            self.arc(between, inside, 0 if RANDOM.random() < 0.3 else int(RANDOM.integers(1, LABELS)))
        return entry, inside

    def words(self, src: int) -> int:
        """Some arcs to a new state, and maybe a self-loop."""
        dst = self.state()
        for _ in range(RANDOM.integers(1, 4)):
            self.arc(src, dst, int(RANDOM.integers(1, LABELS)), int(RANDOM.integers(0, 3)))
        self.arc(dst, dst, int(RANDOM.integers(1, LABELS)))
        return dst

    def call(self, src: int, nonterminal: int, phones: tuple[int, ...] = PHONES[:3]) -> int:
        """Calls another graph; returns the state behind its return."""
        crossing, (back, inside) = self.state(), self.entered(REENTER)
        self.final[crossing] = CROSSES
        self.arc(src, crossing, 0)
        for phone in phones:
            self.arc(crossing, back, label(nonterminal, phone))
        return inside

    def leave(self, src: int) -> None:
        crossing, end = self.state(), self.state()
        self.final |= {crossing: CROSSES, end: 0.0}
        self.arc(src, crossing, 0)
        for phone in PHONES[:2]:
            self.arc(crossing, end, label(END, phone))

    def fst(self, start: int = 0) -> Fst:
        final = [self.final.get(state, np.inf) for state in range(self.states)]
        src, dst, ilabel, olabel, cost = zip(*self.arcs, strict=True)
        return Fst.from_arcs(start, final, src, dst, ilabel, cost, olabel)


def random_grammar(calls_itself: bool = False, builder: type[Builder] = Builder) -> Grammar:
    """Sentences with two names, one of them in a place, or in a place in a place and so on."""
    top = builder()
    state = top.call(top.words(top.state()), NAME)
    top.call(state, NOBODY)
    state = top.words(top.call(top.words(state), PLACE, PHONES))
    top.final[state] = 0.5
    name, place = builder(), builder()
    name.leave(name.words(name.words(name.entered(BEGIN)[1])))
    inside = place.entered(BEGIN)[1]
    place.leave(place.words(inside))
    place.leave(place.call(place.words(inside), PLACE if calls_itself else NAME))
    return Grammar(BOS, top.fst(), {NAME: name.fst(), PLACE: place.fst(), NOBODY: Fst.empty()})


def written_out(grammar: Grammar, depth: int) -> Fst:
    """All calls up to a depth, by the rules, one state after the other; a state is a graph, its state, and returns."""
    fsts = {0: grammar.top, **grammar.parts}
    start: tuple[Any, ...] = (0, grammar.top.start, ())
    number, waiting, arcs = {start: 0}, deque([start]), list[Arc]()

    def found(state: tuple[Any, ...]) -> int:
        if state not in number:
            number[state] = len(number)
            waiting.append(state)
        return number[state]

    def entering(graph: int, state: int) -> list[Arc]:
        fst = fsts[graph]
        chosen = range(fst.offsets[state], fst.offsets[state + 1])
        return [(state, int(fst.dst[a]), int(fst.ilabel[a]), int(fst.olabel[a]), float(fst.cost[a])) for a in chosen]

    while waiting:
        state = waiting.popleft()
        graph, place, returns = state
        for _, dst, ilabel, olabel, cost in entering(graph, place):
            symbol, phone = divmod(ilabel - 10_000_000, 1000)
            if ilabel < 10_000_000:
                arcs.append((number[state], found((graph, dst, returns)), ilabel, olabel, cost))
                continue
            if symbol == END:
                (into, entry), rest, wanted = returns[-1], returns[:-1], REENTER
            else:
                into, entry, rest, wanted = symbol, fsts[symbol].start, (*returns, (graph, dst)), BEGIN
            if len(rest) > depth or not fsts[into].num_states:
                continue
            entries = entering(into, entry)
            (match,) = [each for each in entries if each[2] == label(wanted, phone)]
            total = cost + match[4] - math.log(len(entries))
            arcs.append((number[state], found((into, match[1], rest)), 0, match[3], total))
    final = [fsts[g].final[s] if not r and fsts[g].final[s] != CROSSES else np.inf for g, s, r in number]
    src, dst, ilabel, olabel, cost = zip(*arcs, strict=True)
    return Fst.from_arcs(0, final, src, dst, ilabel, cost, olabel)


def _graph(grammar: Grammar) -> GrammarGraph:
    return GrammarGraph(grammar, np.arange(-1, LABELS - 1))


@pytest.mark.parametrize("example", range(8))
@pytest.mark.parametrize("calls_itself", [False, True])
def test_the_same_as_with_all_calls_written_out(example: int, calls_itself: bool) -> None:
    grammar = random_grammar(calls_itself)
    graph = _graph(read_grammar(Reader(grammar_bytes(grammar), "g.fst")))
    whole = SearchGraph(written_out(grammar, ROWS + 1), np.arange(-1, LABELS - 1))
    for rows in (ROWS, ROWS // 2):  # the second search finds states that are there
        scores = RANDOM.normal(size=(rows, LABELS - 1)).astype(np.float32)
        searches = [BeamSearch(each.begin(), WIDE) for each in (whole, graph)]
        for search in searches:
            search.advance(scores)
        expected, found = (search.best_path(use_final=True) for search in searches)
        assert (expected is None) == (found is None)
        if expected is not None and found is not None:
            assert found.cost == pytest.approx(expected.cost, rel=1e-5)
            assert np.array_equal(found.transition_ids, expected.transition_ids)
            assert np.array_equal(found.words, expected.words)
        assert [len(search.tokens.last.state) for search in searches] == 2 * [len(searches[0].tokens.last.state)]


def test_grammars_that_cannot_be() -> None:
    grammar = random_grammar()
    with pytest.raises(ModelFormatError, match="input label 4, but the model has 1 trans"):
        GrammarGraph(grammar, np.arange(-1, 1))
    mixed = Builder()
    mixed.arc(mixed.words(mixed.state()), mixed.state(), label(NAME, 1))
    with pytest.raises(ModelFormatError, match="has arcs to other graphs and ordinary ones"):
        _graph(grammar._replace(top=mixed.fst()))
    twice = Builder()
    twice.entered(BEGIN, (1, 1))
    with pytest.raises(ModelFormatError, match="two ways into a graph behind the same phone"):
        _graph(grammar._replace(parts={NAME: twice.fst()}))


@pytest.mark.parametrize("fault", ["lacking", "phone", "returning"])
def test_what_only_a_search_finds(fault: str) -> None:
    top, name = Builder(), Builder()
    if fault == "returning":
        top.leave(top.words(top.state()))
    else:
        top.call(top.words(top.state()), NAME)
    name.leave(name.words(name.entered(BEGIN, (1, 2))[1]))
    parts = {} if fault == "lacking" else {NAME: name.fst()}
    messages = {
        "lacking": "no graph for nonterminal 54",
        "phone": "no way into a graph",
        "returning": "returns from it",
    }
    search = BeamSearch(_graph(Grammar(BOS, top.fst(), parts)), WIDE)
    with pytest.raises(ModelFormatError, match=messages[fault]):
        search.advance(np.zeros((5, LABELS - 1), np.float32))


def test_damaged_files() -> None:
    good = grammar_bytes(random_grammar())
    for size in range(0, len(good), 97):
        with pytest.raises(ModelFormatError):
            read_grammar(Reader(good[:size], "g.fst"))
    for contents, message in (
        (good + b"more", "the file should end here"),
        (good[2:], "binary form"),
        (good.replace(b"<GrammarFst> \4\1", b"<GrammarFst> \4\2"), "format 1, got 2"),
        (good.replace(b"\4\x36\0\0\0", b"\4\x35\0\0\0"), "another nonterminal, got that of 53"),
    ):
        with pytest.raises(ModelFormatError, match=message):
            read_grammar(Reader(contents, "g.fst"))
    with pytest.raises(ModelFormatError, match="top graph of the grammar is empty"):
        read_grammar(Reader(grammar_bytes(random_grammar()._replace(top=Fst.empty())), "g.fst"))
    with pytest.raises(ModelFormatError, match="nonterm_bos behind the phones, got 1"):
        read_grammar(Reader(grammar_bytes(random_grammar()._replace(first_symbol=1)), "g.fst"))
