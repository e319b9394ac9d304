"""Golden const-arpa models, their questions and answers; and small models of random n-grams."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from nnet3.base.kaldi_io.writer import Writer
from nnet3.speech.language_models.const_arpa import ConstArpa
from nnet3.speech.language_models.const_arpa_file import write_const_arpa
from nnet3.speech.language_models.integer_arpa import Ngrams
from tests.shared_data import SHARED

FOLDER = SHARED / "rescoring/carpa"
CASES = sorted(path.name for path in FOLDER.iterdir()) if FOLDER.is_dir() else []
needs_rescoring = pytest.mark.skipif(not CASES, reason=f"the golden data of rescoring are not at {SHARED}")
MOST_DISTANCE = {"overflow": 60}  # the limit that this file was made with

Words = tuple[int, ...]


def contents(model: ConstArpa) -> bytes:
    """Returns the file of a model."""
    writer = Writer.of_file(binary=True)
    write_const_arpa(model, writer)
    return writer.getvalue()


def questions(case: str) -> list[tuple[list[str], list[str]]]:
    """Returns the lines of questions and answers, as words."""
    files = ((FOLDER / case / name).read_text().splitlines() for name in ("queries.txt", "answers.txt"))
    return [(question.split(), answer.split()) for question, answer in zip(*files, strict=True)]


def random_ngrams(rng: np.random.Generator, order: int, words: int) -> dict[Words, tuple[float, float]]:
    """Returns log-probabilities and weights of backing off of n-grams whose histories are there; 1 to 3 are there."""
    found: dict[Words, tuple[float, float]] = {}
    sentences: list[Words] = [()]
    for size in range(1, order + 1):
        longer = [(*history, word) for history, word in itertools.product(sentences, range(1, words + 1))]
        kept = [ngram for ngram in longer if rng.random() < 0.6 or (size == 1 and ngram[0] <= 3)]
        for ngram in kept:
            has_weight = size < order and rng.random() < 0.7
            found[ngram] = (-5 * float(rng.random()), float(rng.normal()) if has_weight else 0.0)
        sentences = kept
    return found


def as_arrays(ngrams: dict[Words, tuple[float, float]], order: int, rng: np.random.Generator) -> list[Ngrams]:
    """Returns n-grams in any order within their lengths."""
    found = []
    for size in range(1, order + 1):
        rows = [ngram for ngram in ngrams if len(ngram) == size]
        rng.shuffle(rows)
        values = np.array([ngrams[row] for row in rows], np.float32).reshape(-1, 2)
        found.append(Ngrams(np.array(rows, np.int32).reshape(-1, size), values[:, 0], values[:, 1]))
    return found


def save(model: ConstArpa, path: Path) -> Path:
    path.write_bytes(contents(model))
    return path
