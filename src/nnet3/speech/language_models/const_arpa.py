"""Const-arpa models: n-gram language models as one array of 32-bit words, looked up where the file is mapped."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nnet3.errors import ModelFormatError
from nnet3.speech.arrays.aliases import Flags, Integers, Singles

NO_UNK = -1
NO_STATE = -1
_HEAD = 3  # words of a state before its children: log-probability, weight of backing off, number of children


class _Children(NamedTuple):
    """Children of pairs (state, word): whether a child exists, log-probability, and state or NO_STATE."""

    found: Flags
    log_prob: Singles
    state: Integers


@dataclass(frozen=True, eq=False)
class ConstArpa:
    """An n-gram model of words that are integers; bos and eos begin and end sentences, unk (-1: none) stands for words
    without a unigram.

    states: int32. A state of n-grams with equal beginnings, the state's history, is some consecutive numbers: the
    log-probability of the history's own n-gram and the weight of backing off, both float32 by their bits; the number of
    children; and for each child, sorted by word, the word and a number. An even number has the bits of the
    log-probability of a child without a state; an odd one tells where the child's state is. unigrams: (words,) int64,
    one more than the offset of the state of each word, 0 for a word without a unigram. overflow: int64, one more than
    the offsets of states far away from the state of the history. Facts: rescoring.md, section 1.

    The arrays may be views of a mapped file that nobody has checked: a look-up raises ModelFormatError for an offset
    that does not lie within them.
    """

    bos: int
    eos: int
    unk: int
    order: int
    states: npt.NDArray[np.int32]
    unigrams: npt.NDArray[np.int64]
    overflow: npt.NDArray[np.int64]
    source: str = ""

    def __post_init__(self) -> None:
        words = len(self.unigrams)
        for name, word in (("<s>", self.bos), ("</s>", self.eos), ("the unknown word", self.unk)):
            if not 0 < word < words and not (word == NO_UNK and name == "the unknown word"):
                raise ModelFormatError(f"{name} is word {word}, but words are 1 to {words - 1}", self.source)
        if self.order < 1:
            raise ModelFormatError(f"the n-grams have up to {self.order} words", self.source)

    # ---- many look-ups at once ----

    def log_probs(self, words: Integers, histories: Integers) -> Singles:
        """Returns log p(word | history), natural, -inf for an unknown word, (n,).

        words: (n,). histories: (n, length), the oldest word first; a shorter history begins with zeros.
        """
        words, histories = self._known(words), self._known(self._recent(histories))
        log_prob, level = self._unigram_log_probs(words), np.full(len(words), histories.shape[1])
        back_off = np.zeros(histories.shape, np.float32)
        left = np.arange(len(words))
        for first in range(histories.shape[1]):
            state = self.find(histories[left, first:])
            there = (state != NO_STATE) & (histories[left, first] > 0)
            children = self._children(state[there], words[left[there]])
            done = left[there][children.found]
            log_prob[done], level[done] = children.log_prob[children.found], first
            back_off[left[there], first] = self._real(state[there] + 1)
            left = np.setdiff1d(left, done, assume_unique=True)
        for first in range(histories.shape[1] - 1, -1, -1):  # from the shortest history on, as Kaldi adds
            before = level > first
            log_prob[before] = back_off[before, first] + log_prob[before]
        return log_prob

    def exist(self, histories: Integers) -> Flags:
        """Returns true, (n,), for histories (n, length) that are empty or begin longer n-grams."""
        state = self.find(histories)
        found: Flags = np.count_nonzero(histories, axis=1) == 0
        there = np.flatnonzero(state != NO_STATE)
        found[there] |= self.num_children(state[there]) > 0
        return found

    def _recent(self, histories: Integers) -> Integers:
        """Returns the words of histories that count."""
        return histories[:, max(histories.shape[1] - self.order + 1, 0) :]

    def _known(self, words: Integers) -> Integers:
        """Returns words with unk, if the model has it, in place of words without a unigram; 0 stays 0."""
        if self.unk == NO_UNK:
            return words
        unknown = (words >= len(self.unigrams)) | (words < 0)
        unknown[~unknown] = self.unigrams[words[~unknown]] == 0
        return np.where(unknown & (words != 0), self.unk, words)

    def _unigram_states(self, words: Integers) -> Integers:
        """Returns the states of words, NO_STATE for a word without a unigram."""
        inside = (words > 0) & (words < len(self.unigrams))
        return np.where(inside, self.unigrams[np.where(inside, words, 0)] - 1, NO_STATE)

    def _unigram_log_probs(self, words: Integers) -> Singles:
        state, found = self._unigram_states(words), np.full(len(words), -np.inf, np.float32)
        found[state != NO_STATE] = self._real(state[state != NO_STATE])
        return found

    def find(self, histories: Integers) -> Integers:
        """Returns the offsets of the states of histories, (n, length) -> (n,); NO_STATE where there is none."""
        state, before = np.full(len(histories), NO_STATE), np.zeros(len(histories), np.int64)
        for words in histories.T:
            begins = (before == 0) & (words > 0)
            state[begins] = self._unigram_states(words[begins])
            there = np.flatnonzero(~begins & (state != NO_STATE))
            state[there] = self._children(state[there], words[there]).state
            before = words
        return state

    def _children(self, states: Integers, words: Integers) -> _Children:
        """Looks up `words` (n,) among the children of `states` (n,), by binary search."""
        low, size = np.zeros(len(states), np.int64), self.num_children(states)
        high = size.copy()
        first = states + _HEAD
        for _ in range(int(size.max(initial=0)).bit_length()):
            middle = (low + high) // 2
            active = low < high
            less = active.copy()
            less[active] = self.states[first[active] + 2 * middle[active]] < words[active]
            low, high = np.where(less, middle + 1, low), np.where(active & ~less, middle, high)
        found = low < size
        offset = first[found] + 2 * low[found]
        found[found] = self.states[offset] == words[found]
        info = self.states[first[found] + 2 * low[found] + 1].astype(np.int64)
        log_prob, state = np.zeros(len(states), np.float32), np.full(len(states), NO_STATE)
        is_leaf = info % 2 == 0
        offset = np.flatnonzero(found)
        log_prob[offset[is_leaf]] = self._checked(info[is_leaf].astype(np.int32).view(np.float32))
        inner = offset[~is_leaf]
        state[inner] = self._child_states(states[inner], info[~is_leaf])
        log_prob[inner] = self._real(state[inner])
        return _Children(found, log_prob, state)

    def _child_states(self, states: Integers, info: Integers) -> Integers:
        """Returns the offsets of children's states, decoded from the `info` in the histories' states."""
        near = info > 1
        far = -np.sign(info) * (np.abs(info) // 2)  # towards zero
        if (far[~near] >= len(self.overflow)).any():
            raise self._damaged("a child refers to more than the overflow list has")
        found = states + np.where(near, info // 2, 0)
        found[~near] = self.overflow[far[~near]] - 1
        return found

    def num_children(self, states: Integers) -> Integers:
        """Returns the numbers of children of states, (n,). Raises ModelFormatError unless all lie within the array."""
        if ((states < 0) | (states > len(self.states) - _HEAD)).any():
            raise self._damaged("a state begins outside of the states")
        sizes = self.states[states + _HEAD - 1].astype(np.int64)
        if ((sizes < 0) | (states + _HEAD + 2 * sizes > len(self.states))).any():
            raise self._damaged("the children of a state go beyond the states")
        return sizes

    def _real(self, offsets: Integers) -> Singles:
        """Returns the real numbers at offsets."""
        if ((offsets < 0) | (offsets >= len(self.states))).any():
            raise self._damaged("a state begins outside of the states")
        return self._checked(self.states[offsets].view(np.float32))

    def _checked(self, numbers: Singles) -> Singles:
        if not (numbers < np.inf).all():
            raise self._damaged(f"the logarithm of a probability is {numbers[~(numbers < np.inf)][0]}")
        return numbers

    def _damaged(self, message: str) -> ModelFormatError:
        return ModelFormatError(f"a damaged const-arpa model: {message}", self.source)

    # ---- one look-up at a time ----

    def unigram_state(self, word: int) -> int:
        """Returns the state of a word, NO_STATE for a word without a unigram."""
        return int(self.unigrams[word]) - 1 if 0 < word < len(self.unigrams) else NO_STATE

    @cached_property
    def _reals(self) -> Singles:
        """The bits of states as real numbers."""
        return self.states.view(np.float32)

    def real(self, offset: int) -> float:
        """Returns the number at an offset: a state's log-probability or, one behind, the back-off weight."""
        if not 0 <= offset < len(self.states):
            raise self._damaged("a state begins outside of the states")
        found = float(self._reals[offset])
        return found if found < np.inf else float(self._checked(self._reals[offset : offset + 1])[0])

    def size(self, state: int) -> int:
        """Returns the number of children of one state."""
        if 0 <= state <= len(self.states) - _HEAD:
            found = int(self.states[state + _HEAD - 1])
            if 0 <= 2 * found <= len(self.states) - _HEAD - state:
                return found
        return int(self.num_children(np.array([state]))[0])  # which says what is wrong

    def child(self, state: int, word: int) -> tuple[float, int] | None:
        """Returns the log-probability of a state's child for a word, and the child's state or NO_STATE."""
        first, size = state + _HEAD, self.size(state)
        at = bisect_left(self.states[first : first + 2 * size : 2], word)
        offset = first + 2 * at
        if at == size or self.states[offset] != word:
            return None
        info = int(self.states[offset + 1])
        if info % 2 == 0:
            return self.real(offset + 1), NO_STATE
        inner = state + info // 2 if info > 1 else int(self._child_states(np.array([state]), np.array([info]))[0])
        return self.real(inner), inner
