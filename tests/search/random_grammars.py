"""Random grammars of a few small graphs, and the graph with all calls written out."""

from __future__ import annotations

import math
from collections import deque
from typing import Any

import numpy as np

from nnet3.kaldi_io import Fst
from nnet3.speech.search.grammar_graph import Grammar
from tests.seeds import RANDOM

BOS, BEGIN, END, REENTER, NAME, PLACE, NOBODY = 50, 51, 52, 53, 54, 55, 56
PHONES, LABELS, ROWS, CROSSES = (1, 2, 3, BOS), 5, 9, 4096.0
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
    sources, targets, labels, words, costs = zip(*arcs, strict=True)
    return Fst.from_arcs(0, final, sources, targets, labels, costs, words)
