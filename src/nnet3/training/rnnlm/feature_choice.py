"""Chooses features of words, and computes them (Kaldi: choose_features.py, get_word_features.py; rescoring 5.2)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from nnet3.base.kaldi_io.parse_numbers import parse_real
from nnet3.base.options.rnnlm import FeatureChoiceOptions
from nnet3.errors import ModelFormatError
from nnet3.training.rnnlm.sentences import Sentences

_NEVER_SAID = ("<eps>", "<s>", "<brk>")
_PIECES = ("final", "initial", "match", "word")
_FIELDS = {"constant": 3, "special": 4, "unigram": 4, "length": 3} | dict.fromkeys(_PIECES, 4)


@dataclass(frozen=True)
class Feature:
    """A line of features.txt. `text`: a word or a piece of one; `offset`: of `unigram`; `scale`: the last field."""

    kind: str
    text: str = ""
    offset: float = 0.0
    scale: float = 1.0
    shown: str = ""  # the scale as written

    def line(self, number: int) -> str:
        """Returns the feature as the file has it."""
        middle = [repr(self.offset)] if self.kind == "unigram" else [self.text] if self.text else []
        return "\t".join([str(number), self.kind, *middle, self.shown or repr(self.scale)])


# ---- the features of a vocabulary ----


def choose_features(words: Sequence[str], probs: Sequence[float], options: FeatureChoiceOptions) -> list[Feature]:
    """Returns the features for words, by number, with their unigram probabilities."""
    features = [Feature("constant", scale=options.max_rms)] if options.use_constant_feature else []
    special = [word for word in options.special_words.split(",") if word]
    prob_of = dict(zip(words, probs, strict=True))
    features += [_scaled("special", word, prob_of.get(word, 0.0), options) for word in special]
    inner = [word for word in words if word not in (*_NEVER_SAID, "</s>")]
    if options.include_unigram_feature:
        features.append(_unigram([prob_of[word] for word in inner if prob_of[word] > 0] or [1.0], options))
    if options.include_length_feature:
        square = sum(prob_of[word] * len(word) ** 2 for word in inner)
        features.append(_scaled("length", "", square, options))
    top: list[str] = []
    if options.top_word_features:
        top = sorted(inner, key=lambda word: -prob_of[word])[: options.top_word_features + 1]
    features += [_scaled("word", word, prob_of[word], options) for word in top]
    return features + [
        _scaled(kind, text, frequency, options)
        for (kind, text), frequency in _frequent_pieces(inner, prob_of, options)
        if kind != "word" or text not in top
    ]


def _unigram(probs: Sequence[float], options: FeatureChoiceOptions) -> Feature:
    """Returns the logarithm of the probability, moved and scaled to the mean 0 and the root mean square allowed."""
    total = sum(probs)
    mean = sum(p * math.log(p) for p in probs) / total
    variance = sum(p * math.log(p) ** 2 for p in probs) / total - mean**2
    deviation = math.sqrt(max(total * variance, 0.0))
    scale = min(1.0, options.max_rms / deviation) if deviation else 1.0
    return Feature("unigram", offset=-scale * mean, scale=scale)


def _scaled(kind: str, text: str, square: float, options: FeatureChoiceOptions) -> Feature:
    """Returns a feature with a scale, of two digits, that brings its root mean square down to `max_rms`, or 1."""
    root = math.sqrt(square)
    shown = "1.0" if root <= options.max_rms else f"{options.max_rms / root:.2g}"
    return Feature(kind, text, scale=float(shown), shown=shown)


def _frequent_pieces(
    words: Iterable[str], prob_of: Mapping[str, float], options: FeatureChoiceOptions
) -> list[tuple[tuple[str, str], float]]:
    """Returns pieces of words by kind and text, with the sum of p(word) over all their positions."""
    frequency: dict[tuple[str, str], float] = {}
    for word in words:
        for piece in _pieces(word, options.min_ngram_order, options.max_ngram_order):
            frequency[piece] = frequency.get(piece, 0.0) + prob_of[word]
    return [(piece, frequency[piece]) for piece in sorted(frequency) if frequency[piece] >= options.min_frequency]


def _pieces(word: str, least: int, most: int) -> Iterator[tuple[str, str]]:
    """Yields the pieces of a word with their kinds; the beginning and the end of the word count as letters."""
    for end in range(1, len(word) + 2):
        for order in range(least, most + 1):
            start = end - order
            if start < -1:
                continue
            text = word[max(start, 0) : end]
            kind = ("final" if end > len(word) else "match") if start >= 0 else "word" if end > len(word) else "initial"
            if text:
                yield kind, text


# ---- features.txt and the features of words ----


def parse_features(text: str, source: str) -> list[Feature]:
    """Reads features.txt, line k being feature k. Raises ModelFormatError with the line."""
    features = []
    for number, line in enumerate(text.splitlines()):
        fields = line.split()
        kind = fields[1] if len(fields) > 1 else ""
        scale = parse_real(fields[-1].encode()) if fields else None
        offset = parse_real(fields[2].encode()) if kind == "unigram" and len(fields) == 4 else 0.0
        if _FIELDS.get(kind) != len(fields) or fields[0] != str(number) or scale is None or offset is None:
            raise ModelFormatError(
                f"expected {number}, a kind of feature, its text and a scale, got '{line[:60]}'",
                *(source, f"line {number + 1}"),
            )
        text_of = fields[2] if len(fields) == 4 and kind != "unigram" else ""
        features.append(Feature(kind, text_of, offset, scale, fields[-1]))
    return features


@dataclass(frozen=True, eq=False)
class WordFeatures:
    """Features with their numbers, ready to be looked up."""

    features: Sequence[Feature]
    by_kind: dict[str, dict[str, tuple[int, Feature]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for number, feature in enumerate(self.features):
            self.by_kind.setdefault(feature.kind, {})[feature.text] = number, feature

    def of(self, word: str, prob: float | None) -> dict[int, float]:
        """Returns the features of a word by number; `prob`: the word's unigram probability, if known.

        Raises ModelFormatError for a word without the probability above 0 that a feature needs.
        """
        found = {number: each.scale for number, each in self.by_kind.get("constant", {}).values()}
        if word in self.by_kind.get("special", {}):
            number, feature = self.by_kind["special"][word]
            return found | {number: feature.scale}
        for number, feature in self.by_kind.get("unigram", {}).values():
            if not prob:
                raise ModelFormatError(f"the word '{word}' needs a unigram probability above 0: see --unigram-probs")
            found[number] = feature.offset + feature.scale * math.log(prob)
        for number, feature in self.by_kind.get("length", {}).values():
            found[number] = feature.scale * len(word)
        for (kind, text), count in Counter(_pieces(word, *self._orders)).items():
            if kind != "word" and text in self.by_kind.get(kind, {}):
                number, feature = self.by_kind[kind][text]
                found[number] = feature.scale * count
        if word in self.by_kind.get("word", {}):
            number, feature = self.by_kind["word"][word]
            found[number] = feature.scale
        return found

    @property
    def _orders(self) -> tuple[int, int]:
        """The letters of the shortest and the longest pieces, ends of words among them."""
        sizes = [len(text) + (kind != "match") for kind in _PIECES[:3] for text in self.by_kind.get(kind, {})]
        return min(sizes, default=1), max(sizes, default=0)


def word_feature_lines(
    words: Sequence[str], features: Sequence[Feature], probs: Sequence[float] | None, like_bos: Iterable[str] = ()
) -> Iterator[str]:
    """Yields the lines of word_feats.txt for words, by number. Words `like_bos` have the features of <s>."""
    lookup, as_bos = WordFeatures(features), {*like_bos}
    for number, word in enumerate(words):
        prob = None if probs is None else probs[number]
        found = lookup.of("<s>" if word in as_bos else word, prob) if number else {}
        yield f"{number}\t" + " ".join(f"{feature} {value:.3g}" for feature, value in sorted(found.items()))


def unigram_probs(sentences: Sentences, words: Sequence[str], eos: int) -> list[float]:
    """Returns the probabilities of words, by number: weighted counts, smoothed by one count for each word seen.

    </s>, the word `eos`, counts once a sentence. <eps>, <s> and <brk> have the probability 0.
    """
    counts = np.bincount(sentences.words, np.repeat(sentences.weights, np.diff(sentences.starts)), len(words))
    counts[eos] += sentences.weights.sum()
    smoothed = counts + np.count_nonzero(counts) / max(len(words) - len(_NEVER_SAID), 1)
    smoothed[[number for number, word in enumerate(words) if word in _NEVER_SAID]] = 0
    probs: list[float] = (smoothed / smoothed.sum()).tolist()
    return probs
