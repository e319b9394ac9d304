"""Queues of examples of equal structure, in the order in which Kaldi's hash table has them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import Generic, NamedTuple, TypeVar

import numpy as np

T = TypeVar("T")
_WORD = (1 << 64) - 1
#: The numbers of buckets that libstdc++'s unordered_map has, one after the other, while it grows
_BUCKETS = (1, 13, 29, 59, 127, 257, 541, 1109, 2357, 5087, 10273, 20753, 42043, 85229, 172933, 351061, 712697, 1447153)
_ALL_UP_TO, _BETWEEN = 15, 10  # rows that are hashed: the first ones, then every tenth


class ExampleStructure(NamedTuple):
    """A value equal for examples that may be merged, and Kaldi's hash number of it."""

    number: int
    value: Hashable


def number_of_name(name: str) -> int:
    """Returns the hash number of a name."""
    number = 0
    for code in np.frombuffer(name.encode(), np.int8).tolist():
        number = number * 7853 + code
    return number & _WORD


def number_of_rows(name: str, indexes: np.ndarray) -> int:
    """Returns the hash number of the name and the indexes, (rows, 3), of an input or output."""
    number = number_of_name(name)
    hashed = np.concatenate([indexes[:_ALL_UP_TO], indexes[_ALL_UP_TO::_BETWEEN]]).astype(np.int64)
    return (number + 1433 + 34949 * len(indexes) + int((hashed @ [1619, 15649, 89809]).sum())) & _WORD


def number_of_ios(ios: Iterable[tuple[str, np.ndarray, tuple[int, int]]]) -> int:
    """Returns the hash number of ios: names, indexes, and rows and columns of the matrices."""
    numbers = [number_of_rows(name, indexes) + 19249 * rows + 14731 * columns for name, indexes, (rows, columns) in ios]
    number = 35099 * len(numbers)
    for each in numbers:
        number = number * 19157 + each
    return number & _WORD


class Queues(Generic[T]):
    """A list for each structure. Iteration gives the lists in the order of libstdc++'s unordered_map.

    Buckets that come to be used go before all others, and structures before others of their bucket.
    """

    def __init__(self) -> None:
        self._lists: dict[ExampleStructure, list[T]] = {}
        self._growth = 0
        self._buckets: dict[int, list[ExampleStructure]] = {}  # the newest ones are last

    def of(self, structure: ExampleStructure) -> list[T]:
        """Returns the list of a structure, perhaps a new one."""
        if structure not in self._lists:
            if len(self._lists) == _BUCKETS[self._growth] or not self._growth:
                self._grow()
            self._insert(structure)
            self._lists[structure] = []
        return self._lists[structure]

    def remove(self, structure: ExampleStructure) -> None:
        """Forgets the list of a structure."""
        del self._lists[structure]
        bucket = structure.number % _BUCKETS[self._growth]
        self._buckets[bucket].remove(structure)
        if not self._buckets[bucket]:
            del self._buckets[bucket]

    def __iter__(self) -> Iterator[list[T]]:
        return (self._lists[structure] for structure in self._in_order())

    def _in_order(self) -> list[ExampleStructure]:
        return [structure for bucket in reversed(self._buckets.values()) for structure in reversed(bucket)]

    def _insert(self, structure: ExampleStructure) -> None:
        self._buckets.setdefault(structure.number % _BUCKETS[self._growth], []).append(structure)

    def _grow(self) -> None:
        structures = self._in_order()
        self._growth = min(self._growth + 1, len(_BUCKETS) - 1)
        self._buckets = {}
        for structure in structures:
            self._insert(structure)


def in_order_of_hash(names: Iterable[str]) -> list[str]:
    """Returns names as a hash table of Kaldi's has them that they were put into in the given order."""
    queues = Queues[str]()
    for name in names:
        queues.of(ExampleStructure(number_of_name(name), name)).append(name)
    return [name for (name,) in queues]
