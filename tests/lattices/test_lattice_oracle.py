"""The path with the fewest word errors: against all paths."""

from __future__ import annotations

import numpy as np
import pytest

from nnet3.base.kaldi_io.lattice import Lattice
from nnet3.speech.asr.word_errors import word_errors
from nnet3.speech.lattices.lattice_oracle import best_of_path, closest_path
from nnet3.speech.lattices.lattice_path import best_paths
from tests.asr.random_lattices import random_lattice
from tests.seeds import RANDOM

_ALL = 100_000


def _all_words(lattice: Lattice) -> dict[tuple[int, ...], float]:
    """The words of all paths, with the cost of the best path of each."""
    found: dict[tuple[int, ...], float] = {}
    for path in best_paths(lattice, _ALL):
        found.setdefault(tuple(path.words.tolist()), path.cost)
    return found


def _without(words: tuple[int, ...], wildcards: list[int]) -> tuple[int, ...]:
    return tuple(word for word in words if word not in wildcards)


@pytest.mark.parametrize("wildcards", [[], [2], [1, 3]], ids=str)
@pytest.mark.parametrize("case", range(12))
def test_no_path_has_fewer_errors(case: int, wildcards: list[int]) -> None:
    rng = RANDOM
    lattice, reference = random_lattice(rng), rng.integers(1, 5, rng.integers(0, 6))
    every = _all_words(lattice)
    found = closest_path(lattice, reference, np.array(wildcards, np.int64))
    if not every:
        assert found is None
        return
    assert found is not None
    said = _without(tuple(reference.tolist()), wildcards)
    assert found.errors == min(word_errors(said, _without(words, wildcards)).errors for words in every)
    words = tuple(found.words.tolist())
    alike = {each: cost for each, cost in every.items() if _without(each, wildcards) == words}
    assert alike
    assert found.errors == word_errors(said, words).errors
    assert found.reference_words == len(said) == len(words) + found.deletions - found.insertions
    path = best_of_path(lattice, found.words, np.array(wildcards, np.int64))
    assert path is not None
    [only] = best_paths(path, 2)
    assert tuple(only.words.tolist()) in alike
    assert only.cost == pytest.approx(min(alike.values()), abs=1e-4)


def test_words_that_are_on_no_path() -> None:
    assert best_of_path(random_lattice(RANDOM), np.full(9, 4), np.zeros(0, np.int64)) is None
