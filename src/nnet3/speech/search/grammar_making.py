"""Prepares decoding graphs for grammars, as Kaldi's make-grammar-fst does.

A graph made with nonterminals has arcs whose input labels name a nonterminal and the phone before. The search wants a
state with arcs to other graphs to have no further arcs, and no words on the arcs: such arcs move to new states, behind
arcs without input labels that carry the words.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from nnet3.base.kaldi_io.fst import NO_STATE, NOT_FINAL, Fst
from nnet3.errors import ModelFormatError
from nnet3.speech.search.grammar_graph import (
    BEGIN,
    CROSSES,
    END,
    FIRST_LABEL,
    FIRST_NONTERMINAL,
    REENTER,
    encoding_multiple,
)

_ORDINARY = 0
_LEAST_DIFFERENCE = float(np.log(np.finfo(np.float32).eps))  # of logarithms that a sum can tell apart


class _Arc(NamedTuple):
    ilabel: int
    olabel: int
    cost: np.float32
    dst: int


class _Category(NamedTuple):
    """Arcs that may leave one state together: equal symbol, destination and word."""

    symbol: int
    dst: int
    olabel: int


_OTHER = _Category(_ORDINARY, NO_STATE, 0)


def prepared(fst: Fst, first_symbol: int) -> Fst:
    """Returns a graph ready to be a grammar's top graph, or the graph of a nonterminal.

    first_symbol: the number of #nonterm_bos in phones.txt. States keep their numbers; new states come last. Raises
    ModelFormatError for a graph made without nonterminals, and for a graph already prepared.
    """
    if fst.start == NO_STATE:
        raise ModelFormatError("the graph has no states")
    if (fst.final == CROSSES).any():
        raise ModelFormatError("the graph is prepared for grammars already")
    return _Preparing(fst, first_symbol).run()


class _Preparing:
    """The graph with lists of arcs for the states that change: only states with arcs of nonterminals do."""

    def __init__(self, fst: Fst, first_symbol: int):
        self._fst, self._first_symbol, self._multiple = fst, first_symbol, encoding_multiple(first_symbol)
        crossing = fst.src[fst.ilabel >= FIRST_LABEL]
        special = np.unique(crossing).tolist()
        self._states, room = fst.num_states, len(crossing) + 1  # no arc needs more than one new state
        self._final = np.append(fst.final, np.full(room, NOT_FINAL, np.float32))
        self._arcs = {state: self._arcs_of(state) for state in special}
        self._simple_end = NO_STATE

    def _arcs_of(self, state: int) -> list[_Arc]:
        fst, which = self._fst, slice(self._fst.offsets[state], self._fst.offsets[state + 1])
        costs = list(fst.cost[which])
        labels = fst.ilabel[which].tolist(), fst.olabel[which].tolist()
        return [_Arc(*arc) for arc in zip(*labels, costs, fst.dst[which].tolist(), strict=True)]

    def run(self) -> Fst:
        fst, todo = self._fst, list(self._arcs)
        for state in todo:  # grows: states made for arcs of nonterminals are looked at too
            categories = self._categories(state)
            if len(categories) > 1 or any(category.olabel for category in categories):
                todo += self._move(state)
            else:
                self._mark(state, categories.pop().symbol)
        kept = ~np.isin(fst.src, list(self._arcs))
        rows = [(state, *arc) for state, arcs in self._arcs.items() for arc in arcs]
        src, ilabel, olabel, cost, dst = zip(*rows, strict=True) if rows else ((), (), (), (), ())
        return Fst.from_arcs(
            fst.start,
            self._final[: self._states],
            np.append(fst.src[kept], src).astype(np.int64),
            np.append(fst.dst[kept], dst).astype(np.int64),
            np.append(fst.ilabel[kept], ilabel).astype(np.int32),
            np.append(fst.cost[kept], np.array(cost, np.float32)),
            np.append(fst.olabel[kept], olabel).astype(np.int32),
        )

    def _symbol(self, ilabel: int) -> int:
        """Returns the symbol of an input label, counted from the first one; 0 for transition-ids."""
        if ilabel < FIRST_LABEL:
            return _ORDINARY
        symbol = (ilabel - FIRST_LABEL) // self._multiple - self._first_symbol
        if symbol <= 0:
            raise ModelFormatError(f"input label {ilabel} is of no nonterminal: is {self._first_symbol} #nonterm_bos?")
        return symbol

    def _category(self, arc: _Arc) -> _Category:
        symbol = self._symbol(arc.ilabel)
        if symbol >= FIRST_NONTERMINAL:
            return _Category(symbol, arc.dst, arc.olabel)
        return _Category(symbol, NO_STATE, arc.olabel if symbol == END else 0)

    def _categories(self, state: int) -> set[_Category]:
        """Returns the categories of the arcs and the end of a state, which must fit together."""
        found = {_OTHER} if self._final[state] < np.inf else set[_Category]()
        for arc in self._arcs[state]:
            category = self._category(arc)
            found.add(category)
            self._check(state, arc, category.symbol)
        if len(found) > 1 and any(category.symbol in (BEGIN, REENTER) for category in found):
            raise ModelFormatError(f"state {state} has arcs that enter the graph, and others")
        return found

    def _check(self, state: int, arc: _Arc, symbol: int) -> None:
        behind = self._arcs.get(arc.dst) or self._arcs_of(arc.dst)
        if symbol >= FIRST_NONTERMINAL and not (behind and self._symbol(behind[0].ilabel) == REENTER):
            raise ModelFormatError(f"no arc returns to the graph behind nonterminal {symbol + self._first_symbol}")
        if symbol == BEGIN and state != self._fst.start:
            raise ModelFormatError(f"state {state} is entered from other graphs, but is not the start")
        if symbol == END and (behind or self._final[arc.dst] == np.inf):
            raise ModelFormatError(f"state {arc.dst}, from where the graph is left, is not an end without arcs")

    def _add_state(self) -> int:
        self._states += 1
        return self._states - 1

    def _move(self, state: int) -> list[int]:
        """Moves the arcs of nonterminals to new states, one state a category; returns the new states."""
        new: dict[_Category, tuple[int, np.float32]] = {}
        for arc in self._arcs[state]:
            category = self._category(arc)
            if category.symbol == _ORDINARY:
                continue
            if category in new:
                number, cost = new[category]
                new[category] = number, _log_sum(cost, arc.cost)
            else:
                new[category] = self._add_state(), arc.cost
        kept = [_Arc(0, category.olabel, cost, number) for category, (number, cost) in sorted(new.items())]
        for arc in self._arcs[state]:
            category = self._category(arc)
            if category.symbol == _ORDINARY:
                kept.append(arc)
                continue
            number, cost = new[category]
            olabel = 0 if arc.olabel == category.olabel else arc.olabel
            self._arcs.setdefault(number, []).append(_Arc(arc.ilabel, olabel, arc.cost - cost, arc.dst))
        self._arcs[state] = kept
        return sorted(number for number, _ in new.values())

    def _mark(self, state: int, symbol: int) -> None:
        """Makes arcs that leave the graph end without a cost, and marks the state from where arcs lead elsewhere."""
        arcs = self._arcs[state]
        for place, arc in enumerate(arcs):
            if self._symbol(arc.ilabel) == END and self._final[arc.dst] != 0:
                if self._simple_end == NO_STATE:
                    self._simple_end = self._add_state()
                    self._final[self._simple_end] = 0
                arcs[place] = arc._replace(cost=arc.cost + self._final[arc.dst], dst=self._simple_end)
        if symbol == END or symbol >= FIRST_NONTERMINAL:
            self._final[state] = CROSSES
        if state == self._fst.start and symbol == BEGIN:
            self._determinize(state)

    def _determinize(self, state: int) -> None:
        """Keeps one arc for each input label of a state; several arcs of one label continue behind a new state."""
        total: dict[int, np.float32] = {}
        count: dict[int, int] = {}
        for arc in self._arcs[state]:
            known = total.get(arc.ilabel)
            total[arc.ilabel] = arc.cost if known is None else _log_sum(known, arc.cost)
            count[arc.ilabel] = count.get(arc.ilabel, 0) + 1
        kept: list[_Arc] = []
        new: dict[int, int] = {}
        for arc in self._arcs[state]:
            if count[arc.ilabel] == 1:
                kept.append(arc)
                continue
            if arc.ilabel not in new:
                new[arc.ilabel] = self._add_state()
                kept.append(_Arc(arc.ilabel, 0, total[arc.ilabel], new[arc.ilabel]))
            behind = _Arc(0, arc.olabel, arc.cost - total[arc.ilabel], arc.dst)
            self._arcs.setdefault(new[arc.ilabel], []).append(behind)
        self._arcs[state] = kept


def _log_sum(first: np.float32, second: np.float32) -> np.float32:
    """Returns minus the logarithm of the sum of two probabilities, given so, in float32 as Kaldi adds."""
    low, high = min(first, second), max(first, second)
    difference = low - high
    if difference < _LEAST_DIFFERENCE:
        return low
    return np.float32(low - np.float32(math.log1p(math.exp(difference))))
