"""Word acceptors: deterministic acceptors of words; a state is made when a caller asks for it."""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal, NamedTuple

import numpy as np

from nnet3.errors import ArgumentError
from nnet3.speech.arrays.aliases import Integers, Singles

NO_ARC = -1
_MOST_SCALE = 1e20  # costs of whole paths are to fit float32


class WordArcs(NamedTuple):
    """Arcs of pairs of a state and a word, (pairs,) each: the next states, and the costs.

    A pair without an arc has the state NO_ARC and an infinite cost.
    """

    dst: Integers
    cost: Singles


class NativeModel(NamedTuple):
    """A model that native code (word_models.h) asks for arcs, with a scale of its costs.

    table: sizes and addresses, as the C struct of the kind has them. kept: what lies at these addresses. locks: held
    while native code runs.
    """

    kind: Literal["grammar", "ngrams", "network"]
    table: Integers
    kept: Sequence[object]
    locks: Sequence[AbstractContextManager[Any]] = ()
    scale: float = 1.0


class WordAcceptor(abc.ABC):
    """A language model as an acceptor: each state has at most one arc for a word, and no arc without a word.

    States are numbers from 0 on; the start is 0. Words are numbers from 1 on. Costs are -log probabilities. An RNNLM
    that merges histories keeps the first history of each merged state, so the order of calls counts: `arcs` visits
    pairs in order, and gives the states of calls of `arc`, pair by pair.
    """

    @abc.abstractmethod
    def arcs(self, states: Integers, words: Integers) -> WordArcs:
        """Returns the arcs of known states for words, (pairs,) each, in the order of pairs."""

    @abc.abstractmethod
    def final_costs(self, states: Integers) -> Singles:
        """Returns the costs of ending in known states, (states,), infinite where no sentence ends."""

    def arc(self, state: int, word: int) -> tuple[int, float] | None:
        """Returns the next state and the cost of one pair; None without an arc."""
        dst, cost = self.arcs(np.array([state]), np.array([word]))
        return None if dst[0] == NO_ARC else (int(dst[0]), float(cost[0]))

    def final_cost(self, state: int) -> float:
        """Returns the cost of ending in one state."""
        return float(self.final_costs(np.array([state]))[0])

    def native(self) -> list[NativeModel]:
        """Returns the models whose costs are added, for native code that begins at the start; none where it cannot."""
        return []


class StateNumbers:
    """Numbers states by keys, integers of 63 bits: 0, 1, ... in order of first occurrence."""

    def __init__(self) -> None:
        self._number_of_key: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._number_of_key)

    def of(self, key: int) -> int:
        """Returns the number of a key, a new number if the key is new."""
        return self._number_of_key.setdefault(key, len(self._number_of_key))

    def of_all(self, keys: Integers) -> Integers:
        """Returns the numbers of keys, (keys,)."""
        return np.array([self.of(key) for key in keys.tolist()], np.int64)


class ScaledAcceptor(WordAcceptor):
    """An acceptor with costs times a scale, in float32; infinite costs stay infinite."""

    def __init__(self, acceptor: WordAcceptor, scale: float):
        if not abs(scale) <= _MOST_SCALE:
            raise ArgumentError(f"the scale of a language model must be at most {_MOST_SCALE:g}, got {scale:g}")
        self._acceptor, self._scale = acceptor, np.float32(scale)

    def arcs(self, states: Integers, words: Integers) -> WordArcs:
        dst, cost = self._acceptor.arcs(states, words)
        return WordArcs(dst, self._scaled(cost))

    def final_costs(self, states: Integers) -> Singles:
        return self._scaled(self._acceptor.final_costs(states))

    def arc(self, state: int, word: int) -> tuple[int, float] | None:
        found = self._acceptor.arc(state, word)
        return None if found is None else (found[0], float(self._scale * np.float32(found[1])))

    def final_cost(self, state: int) -> float:
        cost = self._acceptor.final_cost(state)
        return cost if np.isinf(cost) else float(self._scale * np.float32(cost))

    def native(self) -> list[NativeModel]:
        models = self._acceptor.native()
        is_one = len(models) == 1 and models[0].scale == 1
        return [models[0]._replace(scale=float(self._scale))] if is_one else []

    def _scaled(self, cost: Singles) -> Singles:
        finite = np.isfinite(cost)
        return np.where(finite, self._scale * np.where(finite, cost, np.float32(0)), np.float32(np.inf))


class JointAcceptor(WordAcceptor):
    """Accepts sentences accepted by two acceptors; costs of both are added, in float32. A state is a pair of states.

    The second acceptor is asked only for words accepted by the first.
    """

    def __init__(self, first: WordAcceptor, second: WordAcceptor):
        self._first, self._second = first, second
        self._numbers, self._pairs = StateNumbers(), [(0, 0)]
        self._numbers.of(0)

    def arcs(self, states: Integers, words: Integers) -> WordArcs:
        pairs = np.array([self._pairs[state] for state in states.tolist()], np.int64).reshape(-1, 2)
        dst, cost = self._first.arcs(pairs[:, 0], words)
        known = np.flatnonzero(dst != NO_ARC)
        other = self._second.arcs(pairs[known, 1], words[known])
        both = other.dst != NO_ARC
        found = np.full(len(states), NO_ARC, np.int64)
        found[known[both]] = self._of_pairs(dst[known[both]], other.dst[both])
        total = np.full(len(states), np.inf, np.float32)
        total[known] = cost[known] + other.cost
        return WordArcs(found, total)

    def final_costs(self, states: Integers) -> Singles:
        pairs = np.array([self._pairs[state] for state in states.tolist()], np.int64).reshape(-1, 2)
        return self._first.final_costs(pairs[:, 0]) + self._second.final_costs(pairs[:, 1])

    def arc(self, state: int, word: int) -> tuple[int, float] | None:
        first, second = self._pairs[state]
        found = self._first.arc(first, word)
        other = None if found is None else self._second.arc(second, word)
        if found is None or other is None:
            return None
        pair = found[0], other[0]
        number = self._numbers.of(_key(*pair))
        if number == len(self._pairs):
            self._pairs.append(pair)
        return number, float(np.float32(found[1]) + np.float32(other[1]))

    def final_cost(self, state: int) -> float:
        first, second = self._pairs[state]
        return float(np.float32(self._first.final_cost(first)) + np.float32(self._second.final_cost(second)))

    def native(self) -> list[NativeModel]:
        models = self._first.native(), self._second.native()
        return [*models[0], *models[1]] if all(len(each) == 1 for each in models) else []

    def _of_pairs(self, first: Integers, second: Integers) -> Integers:
        number = self._numbers.of_all(_key(first.astype(np.int64), second.astype(np.int64)))
        new, position = np.unique(number, return_index=True)
        position = position[new >= len(self._pairs)]
        self._pairs += zip(first[position].tolist(), second[position].tolist(), strict=True)
        return number


def _key(first: Any, second: Any) -> Any:
    """Returns one number for a pair of states."""
    return first << 31 | second


def arcs_of_pairs(arc: Callable[[int, int], tuple[int, float] | None], states: Integers, words: Integers) -> WordArcs:
    """Calls `arc` for pairs of states and words, (pairs,) each, one by one; returns all arcs."""
    found = [arc(*pair) or (NO_ARC, np.inf) for pair in zip(states.tolist(), words.tolist(), strict=True)]
    dst, cost = zip(*found, strict=True) if found else ((), ())
    return WordArcs(np.array(dst, np.int64), np.array(cost, np.float32))
