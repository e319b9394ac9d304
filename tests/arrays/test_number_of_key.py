"""Numbers of keys against a dictionary."""

from __future__ import annotations

import numpy as np

from nnet3.speech.arrays.number_of_key import NumberOfKey
from tests.seeds import RANDOM


def test_keys_are_numbered_as_they_come() -> None:
    table, expected = NumberOfKey(), dict[int, int]()
    for size in (0, 1, 50, 3000, 3000, 9000):
        keys = RANDOM.integers(0, 12_000, size).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        keys[::7] = keys[::7] // np.uint64(2**20) * np.uint64(2**20)  # many that want the same place
        known = len(table)
        number, new = table.find_or_add(keys)
        for key, found in zip(keys.tolist(), number.tolist(), strict=True):
            assert expected.setdefault(key, found) == found
        assert len(table) == len(expected) == known + len(new)
        assert number[new].tolist() == list(range(known, len(table)))
    assert sorted(expected.values()) == list(range(len(table)))
