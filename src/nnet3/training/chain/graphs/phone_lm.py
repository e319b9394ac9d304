"""Estimates the phone language model of a denominator graph: an n-gram without smoothing and back-off arcs.

States are histories of phones. The least useful ones are merged into the history that is one phone shorter, until as
many are left as were asked for; histories of `no_prune_ngram_order - 1` phones always stay.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numpy.typing import ArrayLike

from nnet3.base.kaldi_io.fst import Fst
from nnet3.base.options.chain import PhoneLmOptions
from nnet3.errors import TrainingError

Integers = npt.NDArray[np.int64]
END = 0  # as a prediction; in histories it is the beginning


@dataclass(frozen=True, eq=False)
class PhoneCounts:
    """States are histories, numbered as they are first seen; (state, symbol) pairs are sorted.

    length: (states,) elements of each history. backoff: (states,) the state without the first element, -1 for the
    shortest histories. pair_state, pair_symbol, pair_count: (pairs,). pair_next: (pairs,) the state that follows,
    -1 behind the end. start: the state of the beginning.
    """

    length: Integers
    backoff: Integers
    pair_state: Integers
    pair_symbol: Integers
    pair_count: Integers
    pair_next: Integers
    start: int


def count_phones(sequences: Iterable[ArrayLike], longest: int, shortest: int) -> PhoneCounts:
    """Returns counts with histories of at most `longest` elements, and their back-offs of at least `shortest`.

    Raises TrainingError if there are no sequences or one has a phone below 1.
    """
    before, symbols, index = _flattened(sequences)
    length = np.minimum(index + 1, longest)
    suffixes = _suffix_numbers(before, index, longest)  # (positions, longest + 1)
    chain = length[:, None] - np.arange(longest + 1)  # lengths of the history of a position and of its back-offs
    created = (chain >= shortest) | (np.arange(longest + 1) == 0)
    created &= chain >= 0
    suffix_at = np.where(created, np.take_along_axis(suffixes, np.maximum(chain, 0), axis=1), -1)
    state_of_suffix, order = _numbered_by_first_use(suffix_at[created], int(suffixes.max()) + 1)
    state_at = np.where(created, state_of_suffix[suffix_at], -1)  # (positions, longest + 1)
    lengths = np.zeros(len(order), np.int64)
    lengths[state_at[created]] = chain[created]
    backoff = np.full(len(order), -1)
    has_backoff = created[:, :-1] & created[:, 1:]
    backoff[state_at[:, :-1][has_backoff]] = state_at[:, 1:][has_backoff]
    state = state_at[:, 0]
    following = np.where(symbols == END, -1, np.append(state[1:], -1))
    _, first, count = np.unique(state * (symbols.max() + 1) + symbols, return_index=True, return_counts=True)
    return PhoneCounts(lengths, backoff, state[first], symbols[first], count, following[first], int(state[0]))


def _flattened(sequences: Iterable[ArrayLike]) -> tuple[Integers, Integers, Integers]:
    """Returns each position's previous symbol, symbol (END behind the last), and index in its sequence."""
    arrays = [np.asarray(sequence, np.int64).reshape(-1) for sequence in sequences]
    if not any(array.size for array in arrays):
        raise TrainingError("a phone language model needs at least one sequence of phones, got none")
    lengths = np.array([len(array) for array in arrays]) + 1
    starts = np.cumsum(lengths) - lengths
    total = int(lengths.sum())
    phones = np.concatenate(arrays)
    if len(phones) and phones.min() < 1:
        raise TrainingError(f"phones begin at 1, but a sequence of phones has {phones.min()}")
    if len(phones) and phones.max() >= 2**31:
        raise TrainingError(f"phone {phones.max()} is not believable")
    before, symbols = np.zeros(total, np.int64), np.zeros(total, np.int64)
    begins, ends = np.zeros(total, bool), np.zeros(total, bool)
    begins[starts], ends[starts + lengths - 1] = True, True
    before[~begins], symbols[~ends] = phones, phones
    return before, symbols, np.arange(total) - np.repeat(starts, lengths)


def _suffix_numbers(before: Integers, index: Integers, longest: int) -> Integers:
    """Returns numbers of the last k symbols before each position, (positions, k), equal for equal symbols."""
    numbers = np.zeros((len(before), longest + 1), np.int64)
    for size in range(1, longest + 1):
        inside = np.flatnonzero(index + 1 >= size)
        oldest = before[inside - size + 1]
        key = numbers[inside, size - 1] * (before.max() + 1) + oldest
        _, unique = np.unique(key, return_inverse=True)
        numbers[inside, size] = numbers[:, size - 1].max() + 1 + unique
    return numbers


def _numbered_by_first_use(values: Integers, size: int) -> tuple[Integers, Integers]:
    """Returns new numbers of values below `size`, in the order of their first use, and the values in that order."""
    unique, first = np.unique(values, return_index=True)
    order = unique[np.argsort(first)]
    number = np.full(size, -1)
    number[order] = np.arange(len(order))
    return number, order


_PHASES = 4
_SAME = np.float32(0.001)  # relative difference up to which two changes are the same
_PER_COUNT = np.float32(-1e-15)  # change by a count that moves to a state without any


def estimate_phone_lm(sequences: Iterable[ArrayLike], options: PhoneLmOptions | None = None) -> Fst:
    """Returns the language model of sequences of phones (integers from 1): a deterministic acceptor of phones.

    The probabilities of each state's arcs and of ending there sum to 1. Raises TrainingError.
    """
    options = options or PhoneLmOptions()
    shortest = options.no_prune_ngram_order - 1
    counts = count_phones(sequences, options.ngram_order - 1, shortest)
    pruning = _Pruning(counts, options)
    pruning.run(int((counts.length == shortest).sum()) + options.num_extra_lm_states)
    return pruning.fst()


class _Pruning:
    """The states during pruning: their symbols, with counts and next states."""

    def __init__(self, counts: PhoneCounts, options: PhoneLmOptions):
        states = len(counts.length)
        bounds = np.searchsorted(counts.pair_state, np.arange(1, states))
        self.symbols = np.split(counts.pair_symbol, bounds)
        self.counts = np.split(counts.pair_count, bounds)
        self.next = np.split(counts.pair_next, bounds)
        self.num_symbols = int(counts.pair_symbol.max()) + 1
        self.length, self.backoff, self.start = counts.length, counts.backoff, counts.start
        self.shortest, self.longest = options.no_prune_ngram_order - 1, options.ngram_order - 1
        self.total = np.bincount(counts.pair_state, counts.pair_count, states).astype(np.int64)
        self.total_with_longer = self.total.copy()
        for size in range(self.longest, self.shortest, -1):
            longer = np.flatnonzero(self.length == size)
            longer = longer[self.backoff[longer] >= 0]
            np.add.at(self.total_with_longer, self.backoff[longer], self.total_with_longer[longer])
        self.log_prob = [_log_prob(values) for values in self.counts]

    def run(self, target: int) -> None:
        """Merges until `target` states are active, in phases, since states become mergeable on the way."""
        active = first = int((self.total > 0).sum())
        for phase in range(1, _PHASES + 1):
            wanted = first + _towards_zero((target - first) * phase, _PHASES)
            allowed = [state for state in range(len(self.length)) if self.is_allowed(state)]
            queue = [(-self.change(state), -state) for state in allowed]
            heapq.heapify(queue)
            while active > wanted and queue:
                loss, negative = heapq.heappop(queue)
                state, change = -negative, self.change(-negative)
                if abs(-loss - change) > _SAME * (abs(loss) + abs(change)):
                    heapq.heappush(queue, (-change, -state))
                    continue
                backoff = int(self.backoff[state])
                was_allowed = self.is_allowed(backoff)
                active -= int(self.total[backoff] > 0)
                self.merge(state)
                if not was_allowed and self.is_allowed(backoff):
                    heapq.heappush(queue, (-self.change(backoff), -backoff))

    def is_allowed(self, state: int) -> bool:
        """Returns true if the state may be merged: no longer history stands between it and its counts."""
        length, total = self.length[state], self.total[state]
        if length <= self.shortest or total == 0 or total != self.total_with_longer[state]:
            return False
        if length == self.longest:
            return True
        following = self.next[state][self.symbols[state] != END]
        return not self.total_with_longer[following].any()

    def change(self, state: int) -> np.float32:
        """Returns the change (never above 0) of the data's log-likelihood if `state` is merged."""
        backoff = int(self.backoff[state])
        if self.total[backoff] == 0:
            return _PER_COUNT * np.float32(self.total[state])
        together = _log_prob(self._summed(state, backoff)[1])
        return min(together - self.log_prob[state] - self.log_prob[backoff], np.float32(0))

    def _summed(self, state: int, backoff: int) -> tuple[np.ndarray, np.ndarray]:
        row = np.zeros(self.num_symbols, np.int64)
        row[self.symbols[backoff]] = self.counts[backoff]
        row[self.symbols[state]] += self.counts[state]
        symbols = np.flatnonzero(row)
        return symbols, row[symbols]

    def merge(self, state: int) -> None:
        """Gives all counts to the back-off state."""
        backoff = int(self.backoff[state])
        symbols, counts = self._summed(state, backoff)
        following = np.full(self.num_symbols, -1)
        following[self.symbols[backoff]] = self.next[backoff]
        gone_on = self.next[state]
        if self.length[state] < self.longest:  # then the history behind the symbol is one shorter, too
            gone_on = np.where(gone_on >= 0, self.backoff[gone_on], -1)
        following[self.symbols[state]] = gone_on
        self.symbols[backoff], self.counts[backoff], self.next[backoff] = symbols, counts, following[symbols]
        self.log_prob[backoff] = _log_prob(counts)
        self.total[backoff] += self.total[state]
        none = np.empty(0, np.int64)
        self.symbols[state], self.counts[state], self.next[state] = none, none, none
        self.total[state] = self.total_with_longer[state] = 0

    def fst(self) -> Fst:
        """Returns the active states, in order; each arc leads to the longest active history."""
        active = self.total > 0
        number = np.cumsum(active) - 1
        symbols, counts, following = (np.concatenate(pieces) for pieces in (self.symbols, self.counts, self.next))
        state = np.repeat(np.arange(len(active)), [len(piece) for piece in self.symbols])
        cost = -np.log(counts / self.total[state])
        ends = symbols == END
        final = np.full(int(active.sum()), np.inf)
        final[number[state[ends]]] = cost[ends]
        dst = self._active_suffix(following[~ends], active)
        start = self._active_suffix(np.array([self.start]), active)
        return Fst.from_arcs(
            int(number[start[0]]), final, number[state[~ends]], number[dst], symbols[~ends], cost[~ends]
        )

    def _active_suffix(self, states: np.ndarray, active: np.ndarray) -> np.ndarray:
        states = states.copy()
        while not active[states].all():
            states = np.where(active[states], states, self.backoff[states])
            assert (states >= 0).all(), "a history that was merged has an active one behind it"
        return states


def _log_prob(counts: np.ndarray) -> np.float32:
    """Returns the log-probability of data with the given counts, by the best-fitting model."""
    if len(counts) == 0:
        return np.float32(0)
    return np.float32(np.cumsum(counts * np.log(counts / counts.sum()))[-1])


def _towards_zero(numerator: int, denominator: int) -> int:
    """Returns their quotient, rounded towards zero."""
    quotient = abs(numerator) // denominator
    return quotient if numerator >= 0 else -quotient
