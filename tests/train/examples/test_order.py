"""Shuffling and subsets."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from nnet3.errors import ArgumentError
from nnet3.train.examples.order import shuffled, subset


@pytest.mark.parametrize("buffer_size", [0, 1, 7, 1000])
def test_shuffling_keeps_all_and_repeats_itself(buffer_size: int) -> None:
    runs = [list(shuffled(range(50), np.random.default_rng(seed), buffer_size)) for seed in (0, 0, 1)]
    assert sorted(runs[0]) == list(range(50))
    assert runs[0] == runs[1]
    assert (runs[0] != runs[2]) == (buffer_size != 1)


def test_the_buffer_bounds_how_many_are_held() -> None:
    held = most = 0

    def entries() -> object:
        nonlocal held, most
        for number in range(500):
            held += 1
            most = max(most, held)
            yield number

    for _ in shuffled(entries(), np.random.default_rng(0), 20):  # type: ignore[arg-type]
        held -= 1
    assert 15 < most <= 21


def test_every_order_of_three_comes_equally_often() -> None:
    rng = np.random.default_rng(0)
    counts = Counter(tuple(shuffled("abc", rng)) for _ in range(3000))
    assert len(counts) == 6
    assert all(400 < count < 600 for count in counts.values())


def test_every_entry_is_in_subsets_equally_often() -> None:
    rng = np.random.default_rng(0)
    counts: Counter[int] = Counter()
    for _ in range(2000):
        chosen = subset(range(10), 3, rng)
        assert len(set(chosen)) == 3
        counts.update(chosen)
    assert all(500 < counts[number] < 700 for number in range(10))


def test_small_subsets() -> None:
    rng = np.random.default_rng(0)
    assert sorted(subset("ab", 5, rng)) == ["a", "b"]
    assert subset("abc", 3, rng, randomize_order=False) == ["a", "b", "c"]


def test_wrong_numbers() -> None:
    with pytest.raises(ArgumentError, match="cannot have -1 slots"):
        list(shuffled("a", np.random.default_rng(0), -1))
    with pytest.raises(ArgumentError, match="at least one"):
        subset("a", 0, np.random.default_rng(0))
