"""Estimates sampling LMs from sentences (Kaldi: rnnlm-get-sampling-lm; facts: rescoring 6.4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from nnet3.base.options.rnnlm import SamplingLmOptions
from nnet3.errors import TrainingError
from nnet3.training.rnnlm.sampling_lm import NgramStates, SamplingLm
from nnet3.training.rnnlm.sentences import Sentences


@dataclass(eq=False)
class _Counts:
    """N-grams of one length, ascending, each with the sum of weights and the largest weight."""

    ngrams: np.ndarray  # (ngrams, order)
    counts: np.ndarray
    largest: np.ndarray

    @classmethod
    def of(cls, ngrams: np.ndarray, counts: np.ndarray, largest: np.ndarray) -> _Counts:
        """Adds up equal n-grams."""
        distinct, position = np.unique(ngrams, axis=0, return_inverse=True)
        position = position.reshape(-1)
        top = np.zeros(len(distinct))
        np.maximum.at(top, position, largest)
        return cls(distinct, np.bincount(position, counts, len(distinct)), top)

    def and_shorter(self, other: _Counts) -> _Counts:
        """Returns these counts plus the counts of longer n-grams, oldest words cut off."""
        parts = ((self.ngrams, other.ngrams[:, 1:]), (self.counts, other.counts), (self.largest, other.largest))
        return _Counts.of(*(np.concatenate(pair) for pair in parts))


@dataclass(frozen=True, eq=False)
class _States(NgramStates):
    """Histories in the making: `values` are counts left, `backoff` the counts taken away, `totals` all counts."""

    totals: np.ndarray

    def finished(self) -> NgramStates:
        """Returns counts as shares of the totals."""
        values = self.values / self.totals[self.history_of_word]
        return NgramStates(self.histories, self.backoff / self.totals, self.offsets, self.words, values)

    def without(self, is_kept: np.ndarray) -> _States:
        """Returns the states without some words, whose counts are backed off."""
        state = self.history_of_word
        lost = np.bincount(state[~is_kept], self.values[~is_kept], len(self.histories))
        offsets = np.concatenate([[0], np.cumsum(np.bincount(state[is_kept], minlength=len(self.histories)))])
        return replace(
            self, backoff=self.backoff + lost, offsets=offsets, words=self.words[is_kept], values=self.values[is_kept]
        )

    def only(self, is_kept: np.ndarray) -> _States:
        """Returns some of the histories."""
        words = is_kept[self.history_of_word]
        sizes = np.diff(self.offsets)[is_kept]
        return _States(
            *(self.histories[is_kept], self.backoff[is_kept], np.concatenate([[0], np.cumsum(sizes)])),
            *(self.words[words], self.values[words], self.totals[is_kept]),
        )

    def with_words(self, states: np.ndarray, words: np.ndarray, counts: np.ndarray) -> _States:
        """Returns the states with more words; their counts are taken back from the back-off."""
        state = np.append(self.history_of_word, states)
        order = np.lexsort((np.append(self.words, words), state))
        sizes = np.bincount(state, minlength=len(self.histories))
        return replace(
            self,
            backoff=self.backoff - np.bincount(states, counts, len(self.histories)),
            offsets=np.concatenate([[0], np.cumsum(sizes)]),
            words=np.append(self.words, words)[order],
            values=np.append(self.values, counts)[order],
        )

    def values_of(self, states: np.ndarray, words: np.ndarray) -> np.ndarray:
        """Returns what is left of the counts of words behind histories, 0 for none; see `position_of`."""
        position = self.position_of(states, words)
        return np.where(position >= 0, self.values[position] if len(self.values) else 0.0, 0.0)

    def position_of(self, states: np.ndarray, words: np.ndarray) -> np.ndarray:
        """Returns the position in `words` of words behind histories, (n,), -1 without one."""
        most = int(max(self.words.max(initial=0), words.max(initial=0))) + 1
        keys, wanted = self.history_of_word * most + self.words, states * most + words
        position = np.searchsorted(keys, wanted)
        found = position < len(keys)
        found[found] = keys[position[found]] == wanted[found]
        return np.where(found, position, -1)


def estimate_sampling_lm(
    sentences: Sentences, vocab_size: int, bos: int, eos: int, options: SamplingLmOptions, *, for_arpa: bool = False
) -> SamplingLm:
    """Estimates a sampling LM. `for_arpa`: keep the n-grams that carry back-off weights, for ARPA files.

    Raises TrainingError without sentences, or if one word has all counts.
    """
    if not len(sentences):
        raise TrainingError("there are no sentences to estimate a sampling LM from")
    counts = _counts(sentences, bos, eos, options.ngram_order)
    plain = _unigrams(counts[0], vocab_size, bos, options.discounting_constant)
    states: list[_States] = []
    for own in counts[1:]:
        smooth = _smoothed(own, options.discounting_constant)
        states.append(smooth.without(_worth_keeping(smooth, states, plain, bos, options)))
    _prune_states(states, options.discounting_constant, for_arpa=for_arpa)
    power = plain.astype(np.float64) ** options.unigram_power
    if options.unigram_power == 1.0:
        power = plain.astype(np.float64)
    else:
        power /= power.sum()
    return SamplingLm(power.astype(np.float32), [each.finished() for each in states])


def _counts(sentences: Sentences, bos: int, eos: int, order: int) -> list[_Counts]:
    """Returns the counts of n-grams of 1 to `order` words."""
    words, starts = sentences.ended(bos, eos)
    lengths = np.diff(np.append(starts, len(words)))
    weights = np.repeat(sentences.weights.astype(np.float64), lengths)
    behind = np.arange(len(words)) - np.repeat(starts, lengths)  # words before it in its sentence, <s> among them

    def ngrams(positions: np.ndarray, length: int) -> tuple[np.ndarray, np.ndarray]:
        return words[positions[:, None] - np.arange(length - 1, -1, -1)], weights[positions]

    full, its_weights = ngrams(np.flatnonzero(behind >= max(order - 1, 1)), order)
    found = [_Counts.of(full, its_weights, its_weights)]
    for length in range(order - 1, 0, -1):
        rows, own = ngrams(np.flatnonzero(behind == length - 1) if length > 1 else np.zeros(0, np.int64), length)
        kept = _not_lost(rows)
        found.append(_Counts.of(rows[kept], own[kept], own[kept]).and_shorter(found[-1]))
    return found[::-1]


def _not_lost(rows: np.ndarray) -> np.ndarray:
    """Marks the n-grams at beginnings of sentences counted by Kaldi, in the order of the text.

    Words behind a history wait in a list, whose capacity doubles when full. A full list is counted if at least as long
    as the number of different words counted before; words still waiting at the end are lost.
    """
    kept = np.zeros(len(rows), bool)
    if not len(rows):
        return kept
    which = np.unique(rows[:, :-1], axis=0, return_inverse=True)[1].reshape(-1)
    order = np.argsort(which, kind="stable")
    for positions in np.split(order, np.flatnonzero(np.diff(which[order])) + 1):
        last, capacity, begin = rows[positions, -1], 1, 0
        different = np.zeros(0, np.int64)
        while begin + capacity <= len(positions):
            if capacity < len(different):
                capacity *= 2
                continue
            different = np.union1d(different, last[begin : begin + capacity])
            kept[positions[begin : begin + capacity]] = True
            begin += capacity
    return kept


def _unigrams(counts: _Counts, vocab_size: int, bos: int, discount: float) -> np.ndarray:
    """Returns the probabilities of words (words,): discounted counts, and an equal share of the rest for each word."""
    total, removed = counts.counts.sum(), discount * counts.largest
    probs = np.full(vocab_size, removed.sum() / total / max(vocab_size - 2, 1))
    probs[[0, bos]] = 0
    probs[counts.ngrams[:, 0]] += (counts.counts - removed) / total
    return probs.astype(np.float32)


def _smoothed(counts: _Counts, discount: float) -> _States:
    """Returns histories with discounted counts; the discount goes to the back-off."""
    histories, first, position = np.unique(counts.ngrams[:, :-1], axis=0, return_index=True, return_inverse=True)
    position, removed = position.reshape(-1), discount * counts.largest
    totals = np.bincount(position, counts.counts, len(histories))
    return _States(
        *(histories, np.bincount(position, removed, len(histories)), np.append(first, len(position))),
        *(counts.ngrams[:, -1], counts.counts - removed, totals),
    )


def _worth_keeping(
    states: _States, shorter: Sequence[_States], plain: np.ndarray, bos: int, options: SamplingLmOptions
) -> np.ndarray:
    """Marks words probable enough behind their histories, compared with the word alone and by back-off."""
    state = states.history_of_word
    probs, alone = states.values / states.totals[state], plain[states.words].astype(np.float64)
    if not shorter:
        is_bos = states.histories[state, 0] == bos
        return np.asarray(probs > alone * np.where(is_bos, options.bos_factor, options.unigram_factor))
    backed_off = _probs(states.histories[state][:, 1:], states.words, shorter, alone)
    return (probs > options.unigram_factor * alone) & (probs > options.backoff_factor * backed_off)


def _probs(histories: np.ndarray, words: np.ndarray, states: Sequence[_States], alone: np.ndarray) -> np.ndarray:
    """Returns p(word | history), (n,), for known histories (n, length), back-offs included."""
    probs = alone
    for length, own in enumerate(states, 1):
        number = _row_numbers(own.histories, histories[:, histories.shape[1] - length :])
        probs = (own.backoff[number] * probs + own.values_of(number, words)) / own.totals[number]
    return probs


def _row_numbers(table: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Returns the number of each row in a table of distinct rows with all of them."""
    together = np.unique(np.concatenate([table, rows]), axis=0, return_inverse=True)[1].reshape(-1)
    number = np.full(together.max(initial=0) + 1, -1, np.int64)
    number[together[: len(table)]] = np.arange(len(table))
    return number[together[len(table) :]]


def _prune_states(states: list[_States], discount: float, *, for_arpa: bool) -> None:
    """Drops, from the longest on, histories without words that no longer history backs off to."""
    needed: np.ndarray | None = None
    for length in range(len(states), 0, -1):
        own = states[length - 1]
        is_kept = np.diff(own.offsets) > 0
        if needed is not None:
            is_kept[needed] = True
        if length > 1:
            left = own.histories[is_kept]
            needed = np.unique(_row_numbers(states[length - 2].histories, left[:, 1:]))
            if for_arpa:
                states[length - 2] = _with_carriers(states[length - 2], left, own.totals[is_kept], discount)
        states[length - 1] = own.only(is_kept)


def _with_carriers(shorter: _States, histories: np.ndarray, totals: np.ndarray, discount: float) -> _States:
    """Returns the shorter histories, with dropped n-grams put back where the n-gram is one of `histories`."""
    before, words = _row_numbers(shorter.histories, histories[:, :-1]), histories[:, -1]
    lacks = shorter.position_of(before, words) < 0
    counts = totals - np.minimum(discount, 0.5 * totals)
    return shorter.with_words(before[lacks], words[lacks], counts[lacks])
