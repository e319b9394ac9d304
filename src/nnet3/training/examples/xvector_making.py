"""Makes examples for x-vectors: stretches of utterances, labelled with one class (Kaldi: nnet3-xvector-get-egs)."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from nnet3.base.kaldi_io.general import compressed
from nnet3.base.options.examples import XvectorMakingOptions
from nnet3.base.text import words_of
from nnet3.errors import TrainingError
from nnet3.training.examples.chunk_ios import alignment_matrix, indexes
from nnet3.training.examples.example import Example, NnetIo

_LOG = logging.getLogger("nnet3")


class Stretch(NamedTuple):
    """Frames `start` .. `start + length - 1` of an utterance of class `label`, for output table number `table`."""

    table: int
    start: int
    length: int
    label: int


def read_ranges(text: str, source: str, num_tables: int) -> dict[str, list[Stretch]]:
    """Returns the stretches of every utterance, from lines `UTTERANCE TABLE IGNORED START LENGTH LABEL`.

    Raises TrainingError for a line of another form, or of a table other than 0 .. num_tables - 1.
    """
    stretches: dict[str, list[Stretch]] = {}
    for number, line in enumerate(text.removesuffix("\n").split("\n"), 1):
        key, *words = words_of(line) or [""]
        place = f"{source}, line {number}"
        try:
            of_table, _, *others = words
            table, start, length, label = map(int, [of_table, *others])
        except ValueError:
            raise TrainingError(
                f"{place}: expected an utterance, a table, anything, and three integers (start, length, label), "
                f"got '{line[:60]}'"
            ) from None
        if min(start, label) < 0 or length < 1:
            raise TrainingError(f"{place}: start and label must be at least 0, and the length at least 1")
        if not 0 <= table < num_tables:
            raise TrainingError(f"{place}: there is no output table {table}, there are 0 to {num_tables - 1}")
        stretches.setdefault(key, []).append(Stretch(table, start, length, label))
    return stretches


@dataclass
class XvectorStatistics:
    """Counts of utterances and their stretches: stretches of `unlisted` ones are unknown, `short` is left out."""

    utterances: int = 0
    unlisted: int = 0
    examples: int = 0
    short: int = 0

    def __str__(self) -> str:
        return (
            f"{self.examples} examples of {self.utterances} utterances; {self.unlisted} utterances without ranges, "
            f"{self.short} ranges longer than their utterance"
        )


def make_xvector_examples(
    features: Iterable[tuple[str, np.ndarray]],
    stretches: dict[str, list[Stretch]],
    options: XvectorMakingOptions,
    statistics: XvectorStatistics,
) -> Iterator[tuple[int, str, Example]]:
    """Yields the examples of utterances (key, features (frames, dim)): the number of the table, key, and example.

    A stretch that ends behind its utterance is moved to the utterance's end; a stretch longer than the utterance is
    left out with a warning. Raises TrainingError for a label beyond `num_pdfs`.
    """
    largest = max((each.label for some in stretches.values() for each in some), default=0)
    num_classes = options.num_pdfs if options.num_pdfs > 0 else largest + 1
    if largest >= num_classes:
        raise TrainingError(f"the ranges have a label {largest}, but num_pdfs={num_classes} says they are below")
    for key, matrix in features:
        statistics.utterances += 1
        if key not in stretches:
            statistics.unlisted += 1
            _LOG.warning("%s is left out: the ranges do not name it", key)
        for table, start, length, label in stretches.get(key, []):
            name = f"{key}-{start}-{length}-{label}"
            if length > len(matrix):
                statistics.short += 1
                _LOG.warning("%s is left out: its utterance has %d frames only", name, len(matrix))
                continue
            first = min(start, len(matrix) - length)
            rows = matrix[first : first + length]
            given = NnetIo("input", indexes(0, length), compressed(rows) if options.compress else rows)
            wanted = NnetIo("output", indexes(0, 1), alignment_matrix(np.array([label]), num_classes))
            statistics.examples += 1
            yield table, name, Example((given, wanted))
