"""OpenFst's type `ngram`: a language model as the tree of its histories, which stands for states and arcs."""

from __future__ import annotations

from dataclasses import dataclass

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
_FEW = 4  # so many times fewer words than histories are looked up without tables
_WORD, _LAST_KEY = 0xFFFFFFFF, np.iinfo(np.int64).max
_MARK_BITS, _ODD = 22, np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, eq=False)
class NgramFst:
    """A model whose states are histories; state 0 is the empty history. Where words lead to is found when it is asked.

    final: (states,) float32, infinite where no path ends. back_off: (states,) float32, the cost of going on with a
    history without its oldest word; 0 in state 0. key: (arcs + 1,) int64, the history and the word of each arc as one
    number, history << 32 | word, increasing, and a larger one at the end. first_arc: (states + 1,). cost: (arcs,)
    float32.
    """

    start: int
    final: npt.NDArray[np.float32]
    back_off: npt.NDArray[np.float32]
    key: npt.NDArray[np.int64]
    first_arc: npt.NDArray[np.int64]
    cost: npt.NDArray[np.float32]
    histories: Histories

    def fst(self) -> Fst:
        """Returns all arcs. States other than 0 have first an arc of label 0, the back-off, then the arcs of words.

        Raises ModelFormatError for costs that are no numbers and for a start that is no state.
        """
        states, (history, word) = len(self.final), (self.key[:-1] >> 32, self.key[:-1] & _WORD)
        offsets = self.first_arc + np.maximum(np.arange(states + 1) - 1, 0)
        back_off_at, word_at = offsets[1:states], np.arange(len(word)) + history
        label, dst = np.zeros((2, offsets[-1]), np.int32)
        cost = np.empty(offsets[-1], np.float32)
        cost[back_off_at], dst[back_off_at] = self.back_off[1:], self.histories.shorter[1:]
        label[word_at], cost[word_at], dst[word_at] = word, self.cost, self.histories.with_word(history, word)
        return Fst(self.start, self.final, offsets, label, label, cost, dst)


def read_ngram(reader: Reader, header: FstHeader) -> NgramFst:
    """Reads a model; words lead to the longest known suffix of the history and the word."""
    states, ngrams, finals = reader.raw_array(3, "<u8", _WHAT).tolist()
    if max(states, ngrams, finals) >= _MOST or states != header.states or states == 0:
        raise reader.error(f"{_WHAT} cannot have {states} states, {ngrams} arcs and {finals} ends")
    children_of_state = _groups(reader, 2 * states + 1, states, "histories", leading="10")
    ngrams_of_state = _groups(reader, ngrams + states + 1, states, "arcs", leading="0")
    is_final = _bits(reader, states)
    if is_final.sum() != finals or children_of_state[-1] != states or ngrams_of_state[-1] != ngrams:
        raise reader.error(f"{_WHAT} has other numbers of states, arcs or ends than it says")
    oldest_word = reader.raw_array(states + 1, "<i4", _WHAT)[:states].astype(np.int64)
    word = reader.raw_array(ngrams, "<i4", _WHAT)
    back_off = reader.raw_array(states + 1, "<f4", _WHAT)[:states].astype(np.float32)
    back_off[0] = 0
    final = np.full(states, np.inf, np.float32)
    final[is_final] = reader.raw_array(finals, "<f4", _WHAT)
    cost = reader.raw_array(ngrams + 1, "<f4", _WHAT)[:ngrams].astype(np.float32)
    if word.min(initial=1) < 1 or oldest_word[1:].min(initial=0) < 0:
        raise reader.error(f"{_WHAT} has words below 1")
    key = np.repeat(np.arange(states + 1) << 32, np.append(np.diff(ngrams_of_state), 1))
    key[:-1] |= word
    key[-1] = _LAST_KEY
    if (key[1:] <= key[:-1]).any():
        raise reader.error(f"the words behind a history of {_WHAT} are not sorted")
    histories = Histories(reader, children_of_state, oldest_word)
    found = NgramFst(header.start, final, back_off, key, ngrams_of_state, cost, histories)
    costs_are_good = np.isfinite(cost).all() and np.isfinite(back_off).all() and (final > -np.inf).all()
    if not (costs_are_good and 0 <= header.start < states):
        found.fst()  # says what is wrong
    return found


def _bits(reader: Reader, count: int) -> npt.NDArray[np.bool_]:
    words = reader.raw_array(-(-count // 64), "<u8", _WHAT)
    return np.unpackbits(words.view(np.uint8), count=count, bitorder="little").astype(bool)


def _groups(reader: Reader, count: int, states: int, what: str, leading: str) -> npt.NDArray[np.int64]:
    """Reads bits: `leading`, then for each state a 1 per member of its group and a 0.

    Returns the number of ones before each group and before the end, (states + 1,).
    """
    bits = _bits(reader, count)
    ends = np.flatnonzero(~bits)
    if "".join(map(str, bits[: len(leading)].astype(int))) != leading or len(ends) != states + 1 or bits[-1]:
        raise reader.error(f"the bits that say which {what} a state of {_WHAT} has are damaged")
    return np.asarray(ends - np.arange(states + 1), np.int64)


class Histories:
    """The tree of histories: the parent of a history lacks its oldest word; children are sorted by the oldest word.

    shorter: (states,), the parents, -1 for the empty history. keys: (states,) int64, parent << 32 | oldest word of
    states 1, 2, ..., and a larger one. latest: (longest history + 1, states) int32; latest[i, k] is the state of the
    last i words of history k.
    """

    def __init__(self, reader: Reader, children_of_state: Integers, oldest_word: Integers):
        states = len(oldest_word)
        parent = np.repeat(np.arange(states), np.diff(children_of_state))  # of states 1, 2, ...
        if (parent > np.arange(states - 1)).any():
            raise reader.error(f"a history of {_WHAT} comes before the shorter one that it goes on from")
        self.shorter, self.keys = np.append(-1, parent), np.append((parent << 32) | oldest_word[1:], _LAST_KEY)
        if (np.diff(self.keys) <= 0).any():
            raise reader.error(f"the histories of {_WHAT} are not sorted")
        self.oldest_word = oldest_word
        levels = [(0, 1)]  # states of histories of equal length follow each other
        while levels[-1][1] < states:
            if len(levels) > _HIGHEST_ORDER:
                raise reader.error(f"{_WHAT} has histories of more than {_HIGHEST_ORDER} words")
            levels.append((levels[-1][1], int(children_of_state[levels[-1][1]])))
        self.length, self.latest = np.zeros(states, np.int8), np.zeros((len(levels), states), np.int32)
        for length, (first, last) in enumerate(levels[1:], 1):
            self.length[first:last] = length
            self.latest[:length, first:last] = self.latest[:length, self.shorter[first:last]]
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
        if len(word) < len(self.keys) // _FEW:
            return self._looked_up(state, word, 0, len(self.keys) - 1)
        low, high = int(state.min(initial=0)), int(state.max(initial=0))
        first, last = np.searchsorted(self.keys, [low << 32, (high + 1) << 32])
        oldest = self.oldest_word[first + 1 : last + 1]
        behind = int(oldest.max(initial=0)) + 1
        if low == high and behind < _DENSE * len(word):  # as behind the empty history
            child = np.zeros(behind + 1, np.int64)
            child[oldest] = np.arange(first + 1, last + 1)
            return child[np.minimum(word, behind)]
        child = np.zeros(len(word), np.int64)  # most pairs are no history: few are looked for
        maybe = np.flatnonzero(_marks(self.keys[first:last])[_mark((state << 32) | word)])
        child[maybe] = self._looked_up(state[maybe], word[maybe], first, last)
        return child

    def _looked_up(self, state: Integers, word: Integers, first: int, last: int) -> Integers:
        """Returns the same, where the children are among those of `keys[first:last]`."""
        key = (state << 32) | word
        position = first + np.searchsorted(self.keys[first:last], key)
        return np.where(self.keys[position] == key, position + 1, 0)


def _marks(keys: Integers) -> npt.NDArray[np.bool_]:
    """Returns a table, True at the marks of keys: a value with a mark of False is no key."""
    table = np.zeros(1 << _MARK_BITS, bool)
    table[_mark(keys)] = True
    return table


def _mark(keys: Integers) -> npt.NDArray[np.uint64]:
    """Returns a number below 2^22 for each key, equal ones for few different keys."""
    return keys.view(np.uint64) * _ODD >> np.uint64(64 - _MARK_BITS)
