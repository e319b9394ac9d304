"""Grammars of a few phrases: bigrams of their words, as Vosk makes them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from nnet3.asr.language_model import BackoffModel
from nnet3.errors import ArgumentError
from nnet3.kaldi_io.fst import Fst

_DISCOUNT = 0.5
_END = 0  # in the place of a word


def phrase_model(phrases: Iterable[Sequence[int]]) -> BackoffModel:
    """Returns a model of words' labels. A state is the word before, or no word, as at the start.

    A word w behind h costs -log(0.5 c(h, w) / n(h)): c counts how often w follows h in the phrases, and n sums c over
    words and ends. Backing off to no history costs -log 0.5; without history the counts are of all words.
    """
    pairs = Counter[tuple[int, int]]()
    for phrase in phrases:
        words = list(phrase)
        pairs.update(zip([_END, *words], [*words, _END], strict=True))
    if not any(word for _, word in pairs):
        raise ArgumentError("a grammar needs a phrase with at least one word that the model knows")
    anywhere = Counter[int]()
    for (before, word), count in pairs.items():
        if before:
            anywhere[word] += count
    for word, count in anywhere.items():
        pairs[_END, word] += count
    labels = sorted({word for pair in pairs for word in pair})
    number = {label: state for state, label in enumerate(labels)}
    total = Counter[int]()
    for (before, _), count in pairs.items():
        total[before] += count
    final = np.full(len(labels), np.inf)
    arcs = [(number[word], 0, 0, -np.log(_DISCOUNT)) for word in labels if word]
    for (before, word), count in sorted(pairs.items()):
        cost = -np.log(_DISCOUNT * count / total[before])
        if word == _END:
            final[number[before]] = cost
        else:
            arcs.append((number[before], number[word], word, cost))
    src, dst, label, costs = (np.array(column) for column in zip(*arcs, strict=True))
    return BackoffModel(Fst.from_arcs(0, final, src, dst, label, costs))
