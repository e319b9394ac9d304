"""NumberOfKey: numbers keys in order of arrival, whole arrays of keys at a time."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nnet3.speech.arrays.aliases import Integers

Keys = npt.NDArray[np.uint64]
_NONE = -1
_LEAST_SLOTS = 1 << 12


class NumberOfKey:
    """A hash table, by open addressing, of evenly spread keys of 64 bits; numbers 0, 1, ... in order of arrival."""

    def __init__(self) -> None:
        self._number_of_slot = np.full(_LEAST_SLOTS, _NONE, np.int32)
        self._keys = np.zeros(_LEAST_SLOTS // 2, np.uint64)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def find_or_add(self, keys: Keys) -> tuple[Integers, Integers]:
        """Returns the number of each key, (n,), and the position of each new key's first occurrence."""
        self._make_room(self._count + len(keys))
        number = np.full(len(keys), _NONE, np.int64)
        slot = self._first_slot(keys)
        new: list[Integers] = []
        open_ones = np.arange(len(keys))
        while len(open_ones):
            found = self._number_of_slot[slot[open_ones]]
            free = open_ones[found == _NONE]
            if len(free):  # of those who want a slot the first one gets it
                positions = slot[free]
                self._number_of_slot[positions[::-1]] = np.arange(self._count, self._count + len(free))[::-1]
                first = free[self._number_of_slot[positions] == np.arange(self._count, self._count + len(free))]
                self._number_of_slot[slot[first]] = np.arange(self._count, self._count + len(first))
                self._keys[self._count : self._count + len(first)] = keys[first]
                self._count += len(first)
                new.append(first)
                found = self._number_of_slot[slot[open_ones]]
            same = self._keys[found] == keys[open_ones]
            number[open_ones[same]] = found[same]
            open_ones = open_ones[~same]
            slot[open_ones] = (slot[open_ones] + 1) % len(self._number_of_slot)
        return number, np.concatenate(new) if new else np.zeros(0, np.int64)

    def _first_slot(self, keys: Keys) -> Integers:
        return (keys % np.uint64(len(self._number_of_slot))).astype(np.int64)

    def _make_room(self, count: int) -> None:
        if 2 * count <= len(self._number_of_slot):
            return
        slots = 1 << int(4 * count - 1).bit_length()
        keys = self._keys[: self._count]
        self._number_of_slot, self._keys = np.full(slots, _NONE, np.int32), np.zeros(slots // 2, np.uint64)
        self._keys[: len(keys)] = keys
        slot, waiting = self._first_slot(keys), np.arange(len(keys))
        while len(waiting):
            free = waiting[self._number_of_slot[slot[waiting]] == _NONE]
            self._number_of_slot[slot[free]] = free
            waiting = waiting[self._number_of_slot[slot[waiting]] != waiting]
            slot[waiting] = (slot[waiting] + 1) % slots
