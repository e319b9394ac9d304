"""Makes const-arpa models of n-grams."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nnet3.errors import ArgumentError, ModelFormatError
from nnet3.speech.arrays.aliases import Flags, Integers, Singles
from nnet3.speech.language_models.const_arpa import NO_UNK, ConstArpa
from nnet3.speech.language_models.integer_arpa import Ngrams

_HEAD = 3
_MOST_DISTANCE = 2**30 - 1


class _Level(NamedTuple):
    """All n-grams of one order, sorted: `parent`, the number of the n-gram without its last word, and the last word."""

    parent: Integers
    word: Integers
    log_prob: Singles
    back_off: Singles


def make_const_arpa(
    ngrams: Sequence[Ngrams], bos: int, eos: int, unk: int = NO_UNK, most_distance: int = _MOST_DISTANCE
) -> ConstArpa:
    """Returns the model of n-grams of order 1, 2, ..., in Kaldi's layout (facts: rescoring.md, 1.2).

    States farther from the history's state than `most_distance` are in the overflow list. Raises ArgumentError for
    equal `bos` and `eos`, ModelFormatError for an n-gram without a history, or given twice.
    """
    if bos == eos:
        raise ArgumentError(f"<s> and </s> must be different words, got {bos} for both")
    levels = _levels(ngrams)
    if not len(levels[0].word):
        raise ModelFormatError("a language model needs at least one word")
    children = [np.bincount(above.parent, minlength=len(level.word)) for level, above in pairwise(levels)]
    children.append(np.zeros(len(levels[-1].word), np.int64))
    has_state = [(count > 0) | (level.back_off != 0) for level, count in zip(levels, children, strict=True)]
    has_state[0][:] = True
    if len(levels) > 1:
        has_state[-1][:] = False
    offsets = _offsets(levels, children, has_state)
    size = sum(int((_HEAD + 2 * count[there]).sum()) for count, there in zip(children, has_state, strict=True))
    states = np.zeros(size, np.int32)
    far: list[tuple[Integers, Integers]] = []  # offsets of numbers that tell where states are, and these states
    for number, (level, count, there, offset) in enumerate(zip(levels, children, has_state, offsets, strict=True)):
        at = offset[there]
        states[at], states[at + 1] = level.log_prob[there].view(np.int32), level.back_off[there].view(np.int32)
        states[at + 2] = count[there]
        if number:
            far.append(_enter_children(states, level, offsets[number - 1], there, offset, most_distance))
    where, overflow = (np.concatenate(columns) for columns in zip((np.zeros(0, np.int64),) * 2, *far, strict=True))
    order = np.argsort(where)
    states[where[order]] = -(2 * np.arange(len(order)) + 1)
    unigrams = np.zeros(int(levels[0].word.max()) + 1, np.int64)
    unigrams[levels[0].word] = offsets[0] + 1
    return ConstArpa(bos, eos, unk, len(levels), states, unigrams, overflow[order] + 1)


def _levels(ngrams: Sequence[Ngrams]) -> list[_Level]:
    """Sorts the n-grams of each order by words, and finds the histories."""
    levels: list[_Level] = []
    keys: list[Integers] = []  # of each order: parent and word as one number, sorted
    for order, (words, log_prob, back_off) in enumerate(ngrams, 1):
        parent = np.zeros(len(words), np.int64)
        for known, word in zip(keys, words.T[:-1], strict=True):
            key = parent << 32 | word
            at = np.minimum(np.searchsorted(known, key), len(known) - 1)
            missing = np.flatnonzero(known[at] != key) if len(known) else np.arange(len(key))
            if len(missing):
                alone = words[missing[0]]
                raise ModelFormatError(f"the {order}-gram '{_shown(alone)}' is there, but not '{_shown(alone[:-1])}'")
            parent = at
        key = parent << 32 | words[:, -1]
        sorted_by = np.argsort(key, kind="stable")
        key = key[sorted_by]
        twice = np.flatnonzero(key[1:] == key[:-1])
        if len(twice) and (order < len(ngrams) or order == 1):
            raise ModelFormatError(f"the n-gram '{_shown(words[sorted_by[twice[0]]])}' is there twice")
        keys.append(key)
        word = words[sorted_by, -1].astype(np.int64)
        levels.append(_Level(parent[sorted_by], word, log_prob[sorted_by], back_off[sorted_by]))
    return levels


def _shown(words: npt.NDArray[np.int32]) -> str:
    return " ".join(map(str, words.tolist()))


def _offsets(levels: Sequence[_Level], children: Sequence[Integers], has_state: Sequence[Flags]) -> list[Integers]:
    """Returns the offset of each n-gram's state: states are sorted by words, a history before longer n-grams."""
    sizes = [np.where(there, _HEAD + 2 * count, 0) for count, there in zip(children, has_state, strict=True)]
    whole = [size.astype(np.int64) for size in sizes]  # with the states of all longer n-grams
    for number in range(len(levels) - 1, 0, -1):
        sums = np.append(0, np.cumsum(whole[number]))
        edges = np.append(0, np.cumsum(children[number - 1]))
        whole[number - 1] += sums[edges[1:]] - sums[edges[:-1]]
    before = np.cumsum(whole[0]) - whole[0]
    offsets: list[Integers] = [before]
    for number in range(1, len(levels)):
        parent = levels[number].parent
        sums = np.cumsum(whole[number]) - whole[number]
        first = np.append(0, np.cumsum(children[number - 1]))[parent]
        offsets.append(offsets[-1][parent] + sizes[number - 1][parent] + sums - sums[first])
    return offsets


def _enter_children(
    states: npt.NDArray[np.int32],
    level: _Level,
    parent_offsets: Integers,
    has_state: Flags,
    offsets: Integers,
    most_distance: int,
) -> tuple[Integers, Integers]:
    """Enters n-grams as children of histories; returns the offsets at which far states are named, and these states."""
    parent = level.parent
    rank = np.arange(len(parent)) - np.searchsorted(parent, parent)
    at = parent_offsets[parent] + _HEAD + 2 * rank
    states[at] = level.word
    distance = offsets - parent_offsets[parent]
    leaf = level.log_prob.view(np.int32) & ~np.int32(1)
    states[at + 1] = np.where(has_state, np.where(distance <= most_distance, 2 * distance + 1, 0), leaf)
    is_far = has_state & (distance > most_distance)
    return at[is_far] + 1, offsets[is_far]
