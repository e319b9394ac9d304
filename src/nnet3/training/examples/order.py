"""Shuffles streams of examples, takes parts of streams, and copies streams to several places."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import numpy as np

from nnet3.errors import ArgumentError, TrainingError

T = TypeVar("T")


def shuffled(entries: Iterable[T], rng: np.random.Generator, buffer_size: int = 0) -> Iterator[T]:
    """Yields all entries in random order.

    With `buffer_size` at most so many are held: each goes to a random cell, and the occupant comes out. 0 holds all.
    """
    if buffer_size < 0:
        raise ArgumentError(f"the buffer cannot hold {buffer_size} examples; 0 holds all")
    if buffer_size == 0:
        held = list(entries)
        for number in rng.permutation(len(held)).tolist():
            yield held[number]
        return
    cells: list[T | None] = [None] * buffer_size
    for entry in entries:
        cell = int(rng.integers(buffer_size))
        occupant, cells[cell] = cells[cell], entry
        if occupant is not None:
            yield occupant
    yield from (entry for entry in cells if entry is not None)


def subset(entries: Iterable[T], count: int, rng: np.random.Generator, randomize_order: bool = True) -> list[T]:
    """Returns `count` entries (or all, if fewer), all entries with equal probability."""
    if count < 0:
        raise ArgumentError(f"a subset cannot have {count} examples")
    kept: list[T] = []
    for number, entry in enumerate(entries, 1):
        if number <= count:
            kept.append(entry)
        elif rng.random() < count / number:
            kept[int(rng.integers(count))] = entry
    return [kept[number] for number in rng.permutation(len(kept))] if randomize_order else kept


def copies(
    entries: Iterable[tuple[str, T]],
    change: Callable[[str, T], T | None],
    num_outputs: int,
    rng: np.random.Generator,
    keep_proportion: float = 1.0,
    random: bool = False,
) -> Iterator[tuple[int, str, T]]:
    """Yields (output, key, changed example): each example as often as `keep_proportion` says, to the outputs in turn or
    at random. An example is left out if `change` returns None for its key and itself."""
    if not 0 <= keep_proportion < 2**31:
        raise ArgumentError(f"the proportion to keep must be a number >= 0, got {keep_proportion}")
    number = 0
    for key, example in entries:
        for _ in range(_num_copies(keep_proportion, rng)):
            try:
                changed = change(key, example)
            except TrainingError as error:
                raise TrainingError(f"the entry '{key}': {error}") from None
            if changed is not None:
                yield int(rng.integers(num_outputs)) if random else number % num_outputs, key, changed
                number += 1


def _num_copies(proportion: float, rng: np.random.Generator) -> int:
    """Returns the whole part of the proportion, plus one with the probability of the rest."""
    return int(proportion) + int(rng.random() < proportion - int(proportion))
