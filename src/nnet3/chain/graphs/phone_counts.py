"""Counts which phones follow which histories, for `phone_lm`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numpy.typing import ArrayLike

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
    before, symbols, place = _flattened(sequences)
    length = np.minimum(place + 1, longest)
    suffixes = _suffix_numbers(before, place, longest)  # (positions, longest + 1)
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
    """Returns each position's symbol before, symbol there (END behind the last), and place in its sequence."""
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


def _suffix_numbers(before: Integers, place: Integers, longest: int) -> Integers:
    """Returns numbers of the last k symbols before each position, (positions, k), equal where these symbols are."""
    numbers = np.zeros((len(before), longest + 1), np.int64)
    for size in range(1, longest + 1):
        inside = np.flatnonzero(place + 1 >= size)
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
