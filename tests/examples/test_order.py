"""Shuffling and subsets."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from nnet3.errors import ArgumentError, TrainingError
from nnet3.training.examples.order import copies, shuffled, subset


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


def test_a_subset_of_all_is_all() -> None:
    rng = np.random.default_rng(0)
    assert sorted(subset("ab", 5, rng)) == ["a", "b"]
    assert subset("abc", 3, rng, randomize_order=False) == ["a", "b", "c"]


def test_wrong_numbers_are_refused() -> None:
    with pytest.raises(ArgumentError, match="cannot hold -1 examples"):
        list(shuffled("a", np.random.default_rng(0), -1))
    with pytest.raises(ArgumentError, match="cannot have -1 examples"):
        subset("a", -1, np.random.default_rng(0))
    assert subset("a", 0, np.random.default_rng(0)) == []


ENTRIES = [(f"eg-{number}", number) for number in range(2000)]


def _same(key: str, example: int) -> int | None:
    return example


def test_copies_go_to_the_outputs_in_turn() -> None:
    made = list(copies(ENTRIES[:5], _same, 3, np.random.default_rng(0)))
    assert made == [(number % 3, f"eg-{number}", number) for number in range(5)]
    kept = list(copies(ENTRIES[:5], lambda _, n: None if n == 1 else n, 2, np.random.default_rng(0)))
    assert kept == [(0, "eg-0", 0), (1, "eg-2", 2), (0, "eg-3", 3), (1, "eg-4", 4)]


def test_copies_at_random() -> None:
    made = list(copies(ENTRIES, _same, 2, np.random.default_rng(0), 1.25, random=True))
    counts = Counter(key for _, key, _ in made)
    assert set(counts.values()) == {1, 2}
    assert 2400 < len(made) < 2600
    assert 0.4 < np.mean([output for output, _, _ in made]) < 0.6
    fewer = list(copies(ENTRIES, _same, 1, np.random.default_rng(0), 0.5))
    assert 900 < len(fewer) < 1100
    assert len(list(copies(ENTRIES, _same, 1, np.random.default_rng(0), 2.0))) == 4000


def test_what_goes_wrong_in_copies() -> None:
    def fail(key: str, example: int) -> int:
        raise TrainingError("it is merged")

    with pytest.raises(TrainingError, match="the entry 'eg-0': it is merged"):
        list(copies(ENTRIES, fail, 1, np.random.default_rng(0)))
    for wrong in (-1.0, 2.0**31, float("nan"), float("inf")):
        with pytest.raises(ArgumentError, match="a number >= 0"):
            list(copies(ENTRIES[:0], _same, 1, np.random.default_rng(0), wrong))
