"""Streams of examples in another order, and parts of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

import numpy as np

from nnet3.errors import ArgumentError

T = TypeVar("T")


def shuffled(entries: Iterable[T], rng: np.random.Generator, buffer_size: int = 0) -> Iterator[T]:
    """All entries in random order. With `buffer_size` at most so many are held: each one goes to a random slot, and
    the occupant comes out; with 0 all are held.
    """
    if buffer_size < 0:
        raise ArgumentError(f"the buffer cannot have {buffer_size} slots; 0 holds all examples")
    if buffer_size == 0:
        held = list(entries)
        for number in rng.permutation(len(held)).tolist():
            yield held[number]
        return
    slots: list[T | None] = [None] * buffer_size
    for entry in entries:
        slot = int(rng.integers(buffer_size))
        occupant, slots[slot] = slots[slot], entry
        if occupant is not None:
            yield occupant
    yield from (entry for entry in slots if entry is not None)


def subset(entries: Iterable[T], count: int, rng: np.random.Generator, randomize_order: bool = True) -> list[T]:
    """So many entries (or all, if there are fewer), each with the same probability."""
    if count < 1:
        raise ArgumentError(f"a subset must have at least one example, got {count}")
    kept: list[T] = []
    for number, entry in enumerate(entries, 1):
        if number <= count:
            kept.append(entry)
        elif rng.random() < count / number:
            kept[int(rng.integers(count))] = entry
    return [kept[number] for number in rng.permutation(len(kept))] if randomize_order else kept
