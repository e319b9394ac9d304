"""Word error rates: insertions, deletions and substitutions in recognized words, compared with the transcript."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from nnet3.speech.arrays.aliases import Integers


@dataclass(frozen=True)
class WordErrors:
    """Counts over some sentences; those of several parts add up."""

    words: int = 0
    insertions: int = 0
    deletions: int = 0
    substitutions: int = 0
    sentences: int = 0
    wrong_sentences: int = 0

    @property
    def errors(self) -> int:
        return self.insertions + self.deletions + self.substitutions

    @property
    def rate(self) -> float:
        """The word error rate, 1 for as many errors as words; NaN without words."""
        return self.errors / self.words if self.words else float("nan")

    @property
    def sentence_rate(self) -> float:
        """The part of the sentences with errors; NaN without sentences."""
        return self.wrong_sentences / self.sentences if self.sentences else float("nan")

    def __add__(self, other: WordErrors) -> WordErrors:
        return WordErrors(*(mine + theirs for mine, theirs in zip(_counts(self), _counts(other), strict=True)))


def _counts(errors: WordErrors) -> tuple[int, ...]:
    return tuple(vars(errors).values())


def word_errors(said: Sequence[Hashable], heard: Sequence[Hashable]) -> WordErrors:
    """Counts the fewest errors of one sentence; of ways with equally many, Kaldi's."""
    number: dict[Hashable, int] = {}
    reference, hypothesis = (
        np.array([number.setdefault(word, len(number)) for word in words], np.int64) for words in (said, heard)
    )
    distances = _distances(reference, hypothesis)
    row, column = len(hypothesis), len(reference)
    insertions = deletions = substitutions = 0
    while row or column:
        replaced = _at(distances, row - 1, column - 1) + _differ(hypothesis, reference, row, column)
        inserted, deleted = _at(distances, row - 1, column) + 1, _at(distances, row, column - 1) + 1
        if replaced < min(inserted, deleted):
            substitutions += _differ(hypothesis, reference, row, column)
            row, column = row - 1, column - 1
        elif deleted < inserted:
            deletions, column = deletions + 1, column - 1
        else:
            insertions, row = insertions + 1, row - 1
    wrong = int(insertions + deletions + substitutions > 0)
    return WordErrors(len(reference), insertions, deletions, substitutions, 1, wrong)


def aligned_words(first: Sequence[str], second: Sequence[str], nothing: str) -> list[tuple[str, str]]:
    """Aligns the words of two sentences with the fewest differences; of several alignments takes Kaldi's.

    `nothing`: stands beside a word of one sentence alone.
    """
    number: dict[str, int] = {}
    rows, columns = (
        np.array([number.setdefault(word, len(number)) for word in words], np.int64) for words in (first, second)
    )
    distances = _distances(columns, rows)
    row, column = len(first), len(second)
    pairs: list[tuple[str, str]] = []
    while row or column:
        replaced = _at(distances, row - 1, column - 1) + _differ(rows, columns, row, column)
        left_out, put_in = _at(distances, row - 1, column) + 1, _at(distances, row, column - 1) + 1
        both = replaced <= min(left_out, put_in)
        in_first, in_second = both or left_out <= put_in, both or put_in < left_out
        pairs.append((first[row - 1] if in_first else nothing, second[column - 1] if in_second else nothing))
        row, column = row - in_first, column - in_second
    return pairs[::-1]


def _distances(reference: Integers, hypothesis: Integers) -> Integers:
    """Returns the fewest errors of the first words of both, (heard words + 1, said words + 1)."""
    columns = np.arange(len(reference) + 1)
    table = np.empty((len(hypothesis) + 1, len(columns)), np.int64)
    table[0] = columns
    for row, word in enumerate(hypothesis, 1):
        best = table[row - 1] + 1
        best[1:] = np.minimum(best[1:], table[row - 1, :-1] + (reference != word))
        table[row] = np.minimum.accumulate(best - columns) + columns
    return table


def _at(distances: Integers, row: int, column: int) -> int:
    """Returns a distance; beyond the edge a value that is never the least."""
    return int(distances[row, column]) if min(row, column) >= 0 else int(distances.max()) + 2


def _differ(hypothesis: Integers, reference: Integers, row: int, column: int) -> int:
    return int(hypothesis[row - 1] != reference[column - 1]) if row and column else 0
