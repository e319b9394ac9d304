"""Sentences with weights, the text that RNNLMs and sampling LMs are made of: lines `weight id id ...`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nnet3.base.kaldi_io.parse_numbers import Buffer, parse_integer, parse_real
from nnet3.errors import ModelFormatError


@dataclass(frozen=True, eq=False)
class Sentences:
    """Sentence i has the weight weights[i] and the words words[starts[i]:starts[i + 1]], without <s> and </s>."""

    weights: np.ndarray  # (sentences,) float32
    words: np.ndarray  # int64
    starts: np.ndarray  # (sentences + 1,) int64

    def __len__(self) -> int:
        return len(self.weights)

    def ended(self, begin: int, end: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns all words, `begin` before and `end` behind each sentence, and the position of each sentence."""
        starts = self.starts[:-1] + 2 * np.arange(len(self))
        position = np.arange(len(self.words)) + 1 + 2 * np.repeat(np.arange(len(self)), np.diff(self.starts))
        words = np.full(len(self.words) + 2 * len(self), end, np.int64)
        words[position] = self.words
        words[starts] = begin
        return words, starts


def parse_sentences(data: Buffer, source: str, least_weight: float = 0.0) -> Sentences:
    """Reads lines `weight id id ...`. Raises ModelFormatError, with the line, for anything else."""
    rows = [line.split() for line in bytes(data).splitlines()]
    numbers = [parse_real(row[0]) if row else None for row in rows]
    words = [[parse_integer(word) for word in row[1:]] for row in rows]
    for number, (weight, ids, row) in enumerate(zip(numbers, words, rows, strict=True), 1):
        if weight is None or not least_weight <= weight < np.inf or None in ids:
            got = b" ".join(row[:12]).decode("utf-8", "replace")
            raise ModelFormatError(f"expected a weight and the numbers of words, got '{got}'", source, f"line {number}")
    if not rows:
        raise ModelFormatError("there are no sentences in this file", source)
    lengths = np.array([len(row) for row in words], np.int64)
    flat = np.array([word for row in words for word in row], np.int64)
    return Sentences(np.array(numbers, np.float32), flat, np.concatenate([[0], np.cumsum(lengths)]))


def check_words(sentences: Sentences, vocab_size: int, source: str, forbidden: tuple[int, ...] = ()) -> None:
    """Raises ModelFormatError for words outside 1 to vocab_size - 1, and for forbidden words."""
    words = sentences.words
    wrong = (words < 1) | (words >= vocab_size) | np.isin(words, forbidden)
    if wrong.any():
        position = int(np.flatnonzero(wrong)[0])
        line = int(np.searchsorted(sentences.starts, position, side="right"))
        but = f" but {' and '.join(map(str, forbidden))}" if forbidden else ""
        raise ModelFormatError(
            f"words are numbers from 1 to {vocab_size - 1}{but}, got {words[position]}", source, f"line {line}"
        )
