"""Const-arpa models as word acceptors: a state is the longest history that is of use for the next word."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

import numpy as np

from nnet3.base.native.library import library
from nnet3.speech.arrays.aliases import Integers, Singles
from nnet3.speech.language_models.const_arpa import NO_STATE, NO_UNK, ConstArpa
from nnet3.speech.language_models.word_acceptor import (
    NO_ARC,
    NativeModel,
    StateNumbers,
    WordAcceptor,
    WordArcs,
    arcs_of_pairs,
)

_EMPTY, _START = 0, -1  # keys; the keys of histories that exist are one more than the offsets of their states
_MANY = 300  # pairs
_ABSENT, _FOUND = 0, 1  # answers of native code; any other: Python is to look
_History = tuple[int, ...]


class ConstArpaAcceptor(WordAcceptor):
    """The acceptor of a model: words cost -log p(word | history).

    Behind an unknown word the history is empty, although the word costs what unk costs (facts: rescoring.md, 1.5).
    """

    def __init__(self, model: ConstArpa):
        self._model, self._width = model, model.order - 1
        self._numbers, self._histories = StateNumbers(), list[_History]()  # all with `width` words, 0 before the first
        self._offset_of, self._arc_of = cache(self._offset), cache(self._made_arc)
        start = np.zeros((1, self._width), np.int64)
        start[:, self._width - 1 :] = model.bos
        exists = self._width > 0 and bool(model.exist(start)[0])
        self._enter(np.array([model.find(start)[0] + 1 if exists else _START]), start)
        self._row, self._cost = np.zeros(self._width + 1, np.int64), np.zeros(1, np.float32)
        (self._native,), functions = self.native(), library(warns=False)
        self._look_up: Callable[..., int] | None = None
        if functions is not None:
            addresses = self._native.table.ctypes.data, self._row.ctypes.data
            self._look_up = partial(functions.nnet3_ngram_arc, *addresses)

    def __len__(self) -> int:
        """Returns the number of states made."""
        return len(self._histories)

    # ---- many at once ----

    def arcs(self, states: Integers, words: Integers) -> WordArcs:
        if len(states) < _MANY:
            return self._singly(states, words)
        histories = self._histories_of(states)
        cost = -self._model.log_probs(words, histories)
        there = np.flatnonzero(cost < np.inf)
        dst = np.full(len(states), NO_ARC)
        dst[there] = self._behind(np.column_stack([histories[there], words[there]])[:, 1:])
        return WordArcs(dst, cost)

    def final_costs(self, states: Integers) -> Singles:
        if len(states) < _MANY:
            return np.array([self.final_cost(state) for state in states.tolist()], np.float32)
        return -self._model.log_probs(np.full(len(states), self._model.eos), self._histories_of(states))

    def _histories_of(self, states: Integers) -> Integers:
        distinct, offset = np.unique(states, return_inverse=True)
        histories = [self._histories[state] for state in distinct.tolist()]
        return np.array(histories, np.int64).reshape(len(distinct), self._width)[offset]

    def _behind(self, histories: Integers) -> Integers:
        """Returns the states of the longest ends of histories that exist, (n, width) -> (n,)."""
        key, histories = np.full(len(histories), _EMPTY), histories.copy()
        left = np.arange(len(histories))
        for first in range(self._width):
            offset = self._model.find(histories[left, first:])
            there = (offset != NO_STATE) & (histories[left, first] > 0)
            there[there] = self._model.num_children(offset[there]) > 0
            key[left[there]] = offset[there] + 1
            left = left[~there]
            histories[left, first] = 0
        return self._enter(key, histories)

    def _enter(self, keys: Integers, histories: Integers) -> Integers:
        number = self._numbers.of_all(keys)
        new, offset = np.unique(number, return_index=True)
        added = histories[offset[new >= len(self._histories)]].tolist()
        self._histories += map(tuple, added)
        return number

    # ---- one at a time ----

    def _singly(self, states: Integers, words: Integers) -> WordArcs:
        """Returns the arcs of few pairs, for which arrays take longer."""
        return arcs_of_pairs(self._arc_of, states, words)

    def arc(self, state: int, word: int) -> tuple[int, float] | None:
        return self._arc_of(state, word)

    def final_cost(self, state: int) -> float:
        return -self._log_prob(self._model.eos, self._history(state))

    def native(self) -> list[NativeModel]:
        model = self._model
        pairs = ((model.states, np.int32), (model.unigrams, np.int64), (model.overflow, np.int64))
        kept = [np.ascontiguousarray(array, kind) for array, kind in pairs]  # at any address
        table = [*(each.ctypes.data for each in kept), *map(len, kept), model.bos, model.eos, model.unk, self._width]
        return [NativeModel("ngrams", np.array(table, np.int64), kept)]

    def _history(self, state: int) -> _History:
        return tuple(word for word in self._histories[state] if word)

    def _made_arc(self, state: int, word: int) -> tuple[int, float] | None:
        if self._look_up is not None:
            self._row[1:] = self._histories[state]
            found = self._look_up(word, self._cost.ctypes.data)
            if found == _ABSENT:
                return None
            if found == _FOUND:
                return self._entered(self._row.item(0), tuple(self._row[1:].tolist())), self._cost.item()
        history = self._history(state)
        log_prob = self._log_prob(word, history)
        if log_prob == -np.inf:
            return None
        behind = (*history, word)[-self._width :] if self._width else ()
        while behind and not self._exists(behind):
            behind = behind[1:]
        key = self._offset_of(behind) + 1 if behind else _EMPTY
        return self._entered(key, (0,) * (self._width - len(behind)) + behind), -log_prob

    def _entered(self, key: int, history: _History) -> int:
        number = self._numbers.of(key)
        if number == len(self._histories):
            self._histories.append(history)
        return number

    def _exists(self, history: _History) -> bool:
        offset = self._offset_of(history)
        return offset != NO_STATE and self._model.size(offset) > 0

    def _offset(self, history: _History) -> int:
        """Returns the model's state of a history of one word or more, or NO_STATE."""
        if len(history) == 1:
            return self._model.unigram_state(history[0])
        before = self._offset_of(history[:-1])
        child = None if before == NO_STATE else self._model.child(before, history[-1])
        return NO_STATE if child is None else child[1]

    def _log_prob(self, word: int, history: _History) -> float:
        known = [self._known(each) for each in (*history, word)]
        back_offs = list[float]()
        log_prob, offset = -np.inf, self._model.unigram_state(known[-1])
        if offset != NO_STATE:
            log_prob = self._model.real(offset)
        for first in range(len(history)):
            offset = self._offset_of(tuple(known[first:-1]))
            child = None if offset == NO_STATE else self._model.child(offset, known[-1])
            if child is not None:
                log_prob = child[0]
                break
            if offset != NO_STATE:
                back_offs.append(self._model.real(offset + 1))
        for back_off in reversed(back_offs):
            log_prob = float(np.float32(back_off) + np.float32(log_prob))
        return log_prob

    def _known(self, word: int) -> int:
        """Returns unk, if the model has it, for a word without a unigram."""
        is_unknown = self._model.unk != NO_UNK and self._model.unigram_state(word) == NO_STATE
        return self._model.unk if is_unknown else word
