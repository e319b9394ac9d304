"""Sampling LMs as n-grams with back-off weights, the numbers of ARPA files."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping

import numpy as np

from nnet3.errors import ModelFormatError
from nnet3.training.rnnlm.sampling_lm import NgramStates, SamplingLm

_LOG = logging.getLogger("nnet3.train")
_NEVER = -99.0  # log10, of <s>
_NEGATIVE = 0.01  # share of a probability that back-off may give too much without a warning
Ngram = tuple[str, ...]


def arpa_lines(lm: SamplingLm, names: Mapping[int, str], bos: int) -> Iterator[str]:
    """Yields the lines of the model in the ARPA format, with three decimals as Kaldi writes them."""
    yield "\\data\\"
    sizes = [len(lm.unigrams) - 1, *(len(states.words) for states in lm.states)]
    for order, size in enumerate(sizes, 1):
        yield f"ngram {order}={size}"
    for order in range(1, lm.order + 1):
        yield ""
        yield f"\\{order}-grams:"
        for ngram, value in _ngrams(lm, order, bos):
            words = " ".join(names[word] for word in ngram)
            yield f"{value:.3f}\t{words}{_weight(lm, ngram)}"
    yield ""
    yield "\\end\\"


def _ngrams(lm: SamplingLm, order: int, bos: int) -> Iterator[tuple[tuple[int, ...], float]]:
    """Yields n-grams with the log10 of their probability."""
    if order == 1:
        for word, prob in enumerate(lm.unigrams.tolist()):
            if word:
                yield (word,), _NEVER if word == bos else _log10(prob)
        return
    states = lm.states[order - 2]
    for number, history in enumerate(states.histories.tolist()):
        for word in states.words[states.offsets[number] : states.offsets[number + 1]].tolist():
            yield (*history, word), _log10(probability(lm, tuple(history), word))


def _weight(lm: SamplingLm, ngram: tuple[int, ...]) -> str:
    """Returns a tab and the log10 of the back-off weight of an n-gram that is a history; "" for other n-grams."""
    if len(ngram) > len(lm.states):
        return ""
    states = lm.states[len(ngram) - 1]
    number = states.numbers.get(ngram)
    backoff = 0.0 if number is None else float(states.backoff[number])
    return f"\t{_log10(backoff):.3f}" if backoff else ""


def _log10(value: float) -> float:
    return math.log10(value) if value > 0 else -math.inf


def probability(lm: SamplingLm, history: tuple[int, ...], word: int) -> float:
    """Returns p(word | history), back-off included."""
    found = lm.find(history)
    if found is None:
        return float(lm.unigrams[word])
    length, number = found
    states = lm.states[length - 1]
    part = slice(int(states.offsets[number]), int(states.offsets[number + 1]))
    position = int(np.searchsorted(states.words[part], word))
    is_there = position < part.stop - part.start and states.words[part][position] == word
    own = float(states.values[part][position]) if is_there else 0.0
    return own + float(states.backoff[number]) * probability(lm, history[len(history) - length + 1 :], word)


def from_arpa(
    log10: Mapping[Ngram, float], back_off: Mapping[Ngram, float], labels: Mapping[str, int], source: str
) -> SamplingLm:
    """Returns the model of an ARPA file's n-grams, with words as `labels` number them.

    What n-grams have beyond back-off is stored; less than nothing becomes nothing, with a warning if it is much. Raises
    ModelFormatError for a word without a number.
    """
    unknown = next((word for ngram in log10 for word in ngram if labels.get(word, 0) < 1), None)
    if unknown is not None:
        raise ModelFormatError(f"the word '{unknown}' has no number in the list of words", source)
    unigrams = np.zeros(max(labels.values(), default=0) + 1, np.float32)
    by_length: list[dict[tuple[int, ...], dict[int, float]]] = []
    weights = {tuple(labels[word] for word in ngram): 10.0**value for ngram, value in back_off.items()}
    for ngram, value in log10.items():
        numbers = tuple(labels[word] for word in ngram)
        before, word = numbers[:-1], numbers[-1]
        if not before:
            unigrams[word] = 10.0**value
            continue
        while len(by_length) < len(before):
            by_length.append({})
        by_length[len(before) - 1].setdefault(before, {})[word] = 10.0**value
    for history in weights:
        if len(history) <= len(by_length):
            by_length[len(history) - 1].setdefault(history, {})
    states: list[NgramStates] = []
    for probs in by_length:
        shorter = SamplingLm(unigrams, list(states))
        states.append(_stored(probs, weights, shorter, source))
    return SamplingLm(unigrams, states)


def _stored(
    probs: Mapping[tuple[int, ...], Mapping[int, float]],
    weights: Mapping[tuple[int, ...], float],
    shorter: SamplingLm,
    source: str,
) -> NgramStates:
    """Returns histories of one length, with probabilities of words beyond those of the shorter histories."""
    words, values, offsets, worst = [], [], [0], 0.0
    for history, own in probs.items():
        weight = weights.get(history, 1.0)
        for word in sorted(own):
            beyond = own[word] - weight * probability(shorter, history[1:], word)
            worst = min(worst, beyond / own[word]) if own[word] else worst
            words.append(word)
            values.append(max(beyond, 0.0))
        offsets.append(len(words))
    if worst < -_NEGATIVE:
        _LOG.warning(
            "%s: back-off alone gives an n-gram %.0f %% more than its probability: is this a back-off model?",
            *(source, -100 * worst),
        )
    backoff = np.array([weights.get(history, 1.0) for history in probs])
    histories = np.array([*probs], np.int64).reshape(len(probs), -1)
    return NgramStates(histories, backoff, np.array(offsets), np.array(words, np.int64), np.array(values))
