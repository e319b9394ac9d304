"""Composes a look-ahead graph and a language model while they are searched: only reached states are made."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nnet3.base.kaldi_io.fst import Fst
from nnet3.base.kaldi_io.fst_const import LabelReach
from nnet3.errors import ModelFormatError
from nnet3.speech.arrays.aliases import Integers
from nnet3.speech.arrays.arcs import arcs_leaving
from nnet3.speech.arrays.columns import joined, part
from nnet3.speech.arrays.number_of_key import NumberOfKey
from nnet3.speech.language_models.language_model import BackoffModel
from nnet3.speech.search.growing_graph import GrowingGraph, put
from nnet3.speech.search.mapped_fst import MappedFst, check_unchanged, in_memory
from nnet3.speech.search.search_graph import columns_of_labels
from nnet3.speech.search.words_ahead import ReachedWords, WordsAhead

Costs = npt.NDArray[np.float32]
_NO_WORD = 0
_LAST = 1 << 62  # in the order of arcs
_MOST_STATES = 1_000_000
_STEP = np.float32(2.0**-10)  # costs of words ahead count in steps of it where they are taken back
_MIX = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x94D049BB133111EB], np.uint64)


@dataclass(frozen=True, eq=False)
class LookaheadGraph:
    """HCLr: transition-ids in, words out, with the next words of each state; `disambiguation` symbols are input labels
    without a row.
    """

    fst: Fst | MappedFst
    reach: LabelReach
    disambiguation: Integers

    @cached_property
    def reached(self) -> ReachedWords:
        """The next words within reach of each state."""
        return ReachedWords(self.reach)

    @cached_property
    def label_of_input(self) -> npt.NDArray[np.int32]:
        """The input labels of the FST, 0 in the place of disambiguation symbols, (labels + 1,)."""
        labels = np.arange(self.fst.largest_input + 1, dtype=np.int32)
        labels[self.disambiguation[self.disambiguation < len(labels)]] = 0
        return labels


class _States(NamedTuple):
    """States of the composition, a row each: the states of both parts; whether back-offs are over until the next word;
    the cost of words ahead, already paid; the next word if already read by the model, else 0."""

    graph: Integers
    history: Integers
    is_past: npt.NDArray[np.bool_]
    ahead: Costs
    word: Integers


class _Arcs(NamedTuple):
    """Arcs out of the states at `position` of a list. Destinations are numbered later, a batch at a time."""

    position: Integers
    ilabel: Integers
    olabel: Integers
    cost: Costs
    target: _States
    order: Integers


class LookaheadSearch:
    """Lends searches one composition of a look-ahead graph and a language model, until the composition is large."""

    def __init__(self, graph: LookaheadGraph, model: BackoffModel, column_of_label: npt.ArrayLike):
        if graph.fst.largest_input >= np.size(column_of_label) + len(graph.disambiguation):  # before a table is made
            columns_of_labels(column_of_label, graph.fst.largest_input)
        if not graph.reached.has_any(graph.fst.start, model):
            raise ModelFormatError("the look-ahead graph has no word of the language model: do they belong together?")
        self._graph, self._columns = graph, column_of_label
        self._take(model)

    def _take(self, model: BackoffModel) -> None:
        self._model, self._ahead = model, WordsAhead(self._graph.reached, model)
        self._composition = self._new()

    def _new(self) -> Composition:
        return Composition(self._graph, self._model, self._ahead, self._columns)

    @property
    def fst(self) -> Fst:
        """The look-ahead graph alone, without the language model; disambiguation symbols are epsilons."""
        fst = in_memory(self._graph.fst)
        return replace(fst, ilabel=self._graph.label_of_input[fst.ilabel], properties=None)

    def begin(self) -> Composition:
        """Returns the composition for a new search. Raises ModelFormatError if the graph's file was written to."""
        check_unchanged(self._graph.fst)
        if self._composition.num_states > _MOST_STATES:
            self._composition = self._new()
        return self._composition

    def with_model(self, model: BackoffModel) -> LookaheadSearch:
        """Returns the search with another language model, possibly without any word of the graph."""
        other = copy.copy(self)
        other._take(model)
        return other


class Composition(GrowingGraph):
    """The look-ahead graph composed with the language model by OpenFst's rules, with the interface of a SearchGraph.

    A state is a pair: a state of the graph and a state of the model. The model gives the cost of a word behind the
    words before it. An arc of the graph without a word pays in advance for the words that can follow, -log sum
    exp(-cost), and the next word gets the advance back; if only one word can follow, its cost is paid at once. A
    back-off is an arc without labels, right behind a word or before the first arc without a word. A search therefore
    keeps and drops the same paths as Kaldi's.
    """

    def __init__(self, graph: LookaheadGraph, model: BackoffModel, ahead: WordsAhead, column_of_label: npt.ArrayLike):
        self._fst, self._model, self._ahead = graph.fst, model, ahead
        self._label, self._reached = graph.label_of_input, graph.reached
        super().__init__(column_of_label, int(self._label.max(initial=0)))
        self._number = NumberOfKey()
        self._states = _States._make(np.zeros(0, kind) for kind in (np.int32, np.int32, bool, np.float32, np.int32))
        start = np.array([graph.fst.start]), np.array([model.start])
        self._numbers(_States(*start, np.zeros(1, bool), np.zeros(1, np.float32), np.zeros(1, np.int32)))

    def adopted(self, other: Composition, states: Integers) -> Integers:
        """Returns the numbers, (n,), of `states` of another composition of the same parts."""
        with self.lock:
            return self._numbers(part(other._states, states))

    def adopted_arcs(self, other: Composition, states: Integers, arcs: Integers) -> Integers:
        """Returns the numbers of `arcs` out of `states` of another composition of the same parts, (n,) each."""
        own = self.adopted(other, states)
        self.expand(own)
        return arcs - other._first[states] + self._first[own]

    # ---- states ----

    def _numbers(self, states: _States) -> Integers:
        """Returns the numbers of states, (n,); states not yet known get new numbers."""
        number, new = self._number.find_or_add(_key(states))
        if len(new):
            added = part(states, new)
            first = self._add_states(self._final(added))
            self._states = _States._make(
                put(column, first, more) for column, more in zip(self._states, added, strict=True)
            )
        return number

    def _final(self, states: _States) -> Costs:
        cost = self._fst.final[states.graph] + self._model.final[states.history] - states.ahead
        return np.where(states.word == _NO_WORD, cost, np.inf).astype(np.float32)

    def _make_arcs(self, states: Integers) -> None:
        chosen = part(self._states, states)
        pushed = chosen.word != _NO_WORD
        free = np.flatnonzero(~pushed)
        parts = [arcs(chosen, free) for arcs in (self._back_offs, self._spoken, self._silent)]
        parts.append(self._pushed(chosen, np.flatnonzero(pushed)))
        position, order, ilabel, olabel, cost = (
            np.concatenate([getattr(each, name) for each in parts])
            for name in ("position", "order", "ilabel", "olabel", "cost")
        )
        self._keep_arcs(
            states, position, order, ilabel, olabel, cost, self._numbers(joined([each.target for each in parts]))
        )

    # ---- arcs ----

    def _num_arcs(self, graph: Integers) -> Integers:
        """Returns the numbers of arcs of states of the graph."""
        return (self._fst.offsets[graph + 1] - self._fst.offsets[graph]) // self._fst.step

    def _back_offs(self, states: _States, position: Integers) -> _Arcs:
        """Returns the back-off arcs of states."""
        model = self._model
        history = states.history[position]
        shorter = model.shorter[history]
        can = np.flatnonzero((shorter >= 0) & ~states.is_past[position])
        position, history, shorter = position[can], history[can], shorter[can]
        graph = states.graph[position]
        none = np.zeros(len(can), np.int32)
        # OpenFst goes by the arcs of the part that has more of them, the back-off before or behind silent ones
        is_first = self._num_arcs(graph) <= model.num_words(history) + 1
        order = np.where(is_first, -1, _LAST)
        target = _States(graph, shorter, none > 0, none.astype(np.float32), none)
        return _Arcs(position, none, none, model.back_off_cost[history] - states.ahead[position], target, order)

    def _spoken(self, states: _States, position: Integers) -> _Arcs:
        """Returns the arcs of words that the model reads without a back-off."""
        fst, model = self._fst, self._model
        arc, of = arcs_leaving(fst.offsets, states.graph[position], fst.step)
        of = position[of]
        word = fst.olabel[arc].astype(np.int64)
        spoken = np.flatnonzero(word)
        at = model.find(states.history[of[spoken]].astype(np.int64), word[spoken])
        arc, of, at = arc[spoken[at >= 0]], of[spoken[at >= 0]], at[at >= 0]
        none = np.zeros(len(arc), np.int32)
        target = _States(fst.dst[arc], model.dst(at), none > 0, none.astype(np.float32), none)
        cost = fst.cost[arc] + (model.cost[at] - states.ahead[of])
        return _Arcs(of, self._label[fst.ilabel[arc]], fst.olabel[arc], cost, target, arc)

    def _silent(self, states: _States, position: Integers) -> _Arcs:
        """Returns the arcs of the graph without a word, with the cost of words ahead of them, or with the only word."""
        fst, model = self._fst, self._model
        history = states.history[position]
        position = position[(model.num_words(history) > 0) | (model.final[history] < np.inf)]
        arc, of = arcs_leaving(fst.offsets, states.graph[position], fst.step)
        silent = fst.olabel[arc] == 0
        arc, of = arc[silent], position[of[silent]]
        history = states.history[of].astype(np.int64)
        found = self._ahead.look(fst.dst[arc].astype(np.int64), history)
        good = np.flatnonzero(found.is_some)
        arc, of, history, ahead, only = arc[good], of[good], history[good], found.cost[good], found.only[good]
        is_past = model.shorter[history] >= 0
        change = ahead - states.ahead[of]
        word = np.zeros(len(arc), np.int32)
        pushed = np.flatnonzero(only >= 0)
        only = only[pushed]
        word[pushed], history[pushed] = model.word(only), model.dst(only)
        change[pushed] += model.cost[only]
        kept = np.floor(ahead / _STEP + np.float32(0.5)) * _STEP
        target = _States(fst.dst[arc], history, is_past, kept, word)
        return _Arcs(of, self._label[fst.ilabel[arc]], word, fst.cost[arc] + change, target, arc)

    def _pushed(self, states: _States, position: Integers) -> _Arcs:
        """Returns the arcs of states whose next word is read already: with the word, and silent ones before it."""
        fst = self._fst
        arc, of = arcs_leaving(fst.offsets, states.graph[position], fst.step)
        of = position[of]
        wanted, word = states.word[of], fst.olabel[arc]
        meets = word == wanted
        passes = (word == 0) & (self._num_arcs(states.graph[of]) == 1)
        ask = np.flatnonzero((word == 0) & ~passes)
        passes[ask] = self._reached.has(fst.dst[arc[ask]], wanted[ask])
        good = np.flatnonzero(meets | passes)
        arc, of, meets = arc[good], of[good], meets[good]
        past = states.is_past[of] & ~meets
        none = np.zeros(len(good), np.float32)
        target = _States(fst.dst[arc], states.history[of], past, none, np.where(meets, 0, states.word[of]))
        return _Arcs(of, self._label[fst.ilabel[arc]], np.zeros(len(good), np.int32), fst.cost[arc], target, arc)


def _key(states: _States) -> npt.NDArray[np.uint64]:
    """Returns a hash of 64 bits for each state, (states,)."""
    pair = states.graph.astype(np.uint64) << np.uint64(32) | states.history.astype(np.uint64)
    rest = states.word.astype(np.uint64) << np.uint64(33) | states.is_past.astype(np.uint64) << np.uint64(32)
    rest |= states.ahead.astype(np.float32).view(np.uint32)
    with np.errstate(over="ignore"):
        mixed = pair * _MIX[0]
        mixed = (mixed ^ mixed >> np.uint64(32)) * _MIX[1] + rest * _MIX[2]
        mixed = (mixed ^ mixed >> np.uint64(29)) * _MIX[0]
        return mixed ^ mixed >> np.uint64(32)
