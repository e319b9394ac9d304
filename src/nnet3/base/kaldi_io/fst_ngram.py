"""OpenFst's type `ngram`: a language model as the tree of its histories, expanded to states and arcs."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nnet3.base.kaldi_io.fst import Fst
from nnet3.base.kaldi_io.fst_header import FstHeader
from nnet3.base.kaldi_io.reader import Reader

Integers = npt.NDArray[np.integer]
_WHAT = "an n-gram model"
_HIGHEST_ORDER = 64
_MOST = 1 << 31
_DENSE = 4  # words for each query, up to which a table of all words is made
_MARK_BITS, _ODD = 22, np.uint64(0x9E3779B97F4A7C15)


def read_ngram(reader: Reader, header: FstHeader) -> Fst:
    """Reads a model whose states are histories; state 0 is the empty history.

    All other states have first an arc of label 0, the back-off, to the state of the history without its oldest word.
    Then come the arcs of words, to the longest known suffix of the history and the word.
    """
    states, ngrams, finals = reader.raw_array(3, "<u8", _WHAT).tolist()
    if max(states, ngrams, finals) >= _MOST or states != header.states or states == 0:
        raise reader.error(f"{_WHAT} cannot have {states} states, {ngrams} arcs and {finals} ends")
    children_of_state = _groups(reader, 2 * states + 1, states, "histories", leading="10")
    ngrams_of_state = _groups(reader, ngrams + states + 1, states, "arcs", leading="0")
    is_final = _bits(reader, states)
    if is_final.sum() != finals or children_of_state[-1] != states or ngrams_of_state[-1] != ngrams:
        raise reader.error(f"{_WHAT} has other numbers of states, arcs or ends than it says")
    oldest_word = reader.raw_array(states + 1, "<i4", _WHAT)[:states].astype(np.int64)
    word = reader.raw_array(ngrams, "<i4", _WHAT).astype(np.int64)
    back_off = reader.raw_array(states + 1, "<f4", _WHAT)[:states].astype(np.float32)
    final = np.full(states, np.inf, np.float32)
    final[is_final] = reader.raw_array(finals, "<f4", _WHAT)
    cost = reader.raw_array(ngrams + 1, "<f4", _WHAT)[:ngrams].astype(np.float32)
    if word.min(initial=1) < 1 or oldest_word[1:].min(initial=0) < 0:
        raise reader.error(f"{_WHAT} has words below 1")
    histories = _Histories(reader, children_of_state, oldest_word)
    history = np.repeat(np.arange(states), np.diff(ngrams_of_state))
    dst = np.append(histories.parent, histories.with_word(history, word))
    source, label = np.append(np.arange(1, states), history), np.append(np.zeros(states - 1, np.int64), word)
    return Fst.from_arcs(header.start, final, source, dst, label, np.append(back_off[1:], cost))


def _bits(reader: Reader, count: int) -> npt.NDArray[np.bool_]:
    words = reader.raw_array(-(-count // 64), "<u8", _WHAT)
    return np.unpackbits(words.view(np.uint8), count=count, bitorder="little").astype(bool)


def _groups(reader: Reader, count: int, states: int, what: str, leading: str) -> Integers:
    """Reads bits: `leading`, then for each state a 1 per member of its group and a 0.

    Returns the number of ones before each group and before the end, (states + 1,).
    """
    bits = _bits(reader, count)
    ends = np.flatnonzero(~bits)
    if "".join(map(str, bits[: len(leading)].astype(int))) != leading or len(ends) != states + 1 or bits[-1]:
        raise reader.error(f"the bits that say which {what} a state of {_WHAT} has are damaged")
    return np.asarray(ends - np.arange(states + 1))


class _Histories:
    """The tree of histories: the parent of a history lacks its oldest word; children are sorted by the oldest word.

    latest: (longest history + 1, states); latest[i, k] is the state of the last i words of history k.
    """

    def __init__(self, reader: Reader, children_of_state: Integers, oldest_word: Integers):
        states = len(oldest_word)
        self.parent = np.repeat(np.arange(states), np.diff(children_of_state))  # of states 1, 2, ...
        if (self.parent > np.arange(states - 1)).any():
            raise reader.error(f"a history of {_WHAT} comes before the shorter one that it goes on from")
        self.keys = (self.parent << 32) | oldest_word[1:]  # of states 1, 2, ...
        if (np.diff(self.keys) <= 0).any():
            raise reader.error(f"the histories of {_WHAT} are not sorted")
        self.oldest_word = oldest_word
        levels = [(0, 1)]  # states of histories of equal length follow each other
        while levels[-1][1] < states:
            if len(levels) > _HIGHEST_ORDER:
                raise reader.error(f"{_WHAT} has histories of more than {_HIGHEST_ORDER} words")
            levels.append((levels[-1][1], int(children_of_state[levels[-1][1]])))
        self.length, self.latest = np.zeros(states, np.int64), np.zeros((len(levels), states), np.int64)
        for length, (first, last) in enumerate(levels[1:], 1):
            self.length[first:last] = length
            self.latest[:length, first:last] = self.latest[:length, self.parent[first - 1 : last - 1]]
            self.latest[length, first:last] = np.arange(first, last)

    def with_word(self, state: Integers, word: Integers) -> Integers:
        """Returns the states of the longest known histories that end in the history of `state` and `word`."""
        target = self._child(np.zeros_like(state), word)
        growing = np.flatnonzero(target)
        for length in range(1, len(self.latest)):
            growing = growing[self.length[state[growing]] >= length]
            longer = self._child(target[growing], self.oldest_word[self.latest[length, state[growing]]])
            growing = growing[longer > 0]
            target[growing] = longer[longer > 0]
        return target

    def _child(self, state: Integers, word: Integers) -> Integers:
        """Returns the child of each state for a word; 0 for no child."""
        low, high = int(state.min(initial=0)), int(state.max(initial=0))
        first, last = np.searchsorted(self.keys, [low << 32, (high + 1) << 32])
        oldest = self.oldest_word[first + 1 : last + 1]
        behind = int(oldest.max(initial=0)) + 1
        if low == high and behind < _DENSE * len(word):  # as behind the empty history
            child = np.zeros(behind + 1, np.int64)
            child[oldest] = np.arange(first + 1, last + 1)
            return child[np.minimum(word, behind)]
        keys, key = self.keys[first:last], (state << 32) | word
        child = np.zeros(len(key), np.int64)
        maybe = np.flatnonzero(_marks(keys)[_mark(key)])  # most pairs are no history: few are looked for
        position = np.searchsorted(keys, key[maybe])
        child[maybe] = np.where(np.append(keys, -1)[position] == key[maybe], first + position + 1, 0)
        return child


def _marks(keys: Integers) -> npt.NDArray[np.bool_]:
    """Returns a table that is True at the marks of keys: what is False there is no key."""
    table = np.zeros(1 << _MARK_BITS, bool)
    table[_mark(keys)] = True
    return table


def _mark(keys: Integers) -> npt.NDArray[np.uint64]:
    """Returns a number below 2^22 for each key, equal ones for few different keys."""
    return keys.view(np.uint64) * _ODD >> np.uint64(64 - _MARK_BITS)
