"""Sorted runs of keys: the newest id counts, and many small inserts leave few runs to search."""

from __future__ import annotations

import numpy as np
from hypothesis import given, strategies as st

from tests.call_count import count_calls
from tests.sorted_keys import SortedKeys

KEYS = st.lists(st.integers(-8, 8), max_size=10)


@given(st.lists(KEYS, max_size=8))
def test_behaves_like_a_dict(inserts: list[list[int]]) -> None:
    sorted_keys, oracle = SortedKeys(), dict[int, int]()
    for number, keys in enumerate(inserts):
        ids = [10 * number + place for place in range(len(keys))]
        sorted_keys.insert(np.array(keys, dtype=np.int64), np.array(ids, dtype=np.int32))
        oracle.update(zip(keys, ids, strict=True))
    asked = np.arange(-10, 10)
    expected = [oracle.get(key, -1) for key in asked.tolist()]
    assert sorted_keys.lookup(asked).tolist() == expected
    doubled = sorted_keys.rewritten(lambda keys: 2 * keys)
    assert doubled.lookup(2 * asked).tolist() == expected
    assert doubled.lookup(2 * asked + 1).tolist() == [-1] * len(asked)


def test_many_small_inserts_leave_few_runs() -> None:
    sorted_keys, key = SortedKeys(), np.zeros(1, dtype=np.int64)
    for number in range(300):
        sorted_keys.insert(key + number, np.array([number], dtype=np.int32))
    many = count_calls(sorted_keys.lookup, key)
    once = SortedKeys()
    once.insert(key, np.zeros(1, dtype=np.int32))
    assert many <= 9 * count_calls(once.lookup, key)
