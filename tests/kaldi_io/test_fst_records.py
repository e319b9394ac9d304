"""Starts of records: as found by reading record behind record."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from nnet3.base.kaldi_io import fst_records
from nnet3.base.kaldi_io.fst_records import record_starts


@given(
    st.lists(st.lists(st.integers(-2, 3), max_size=3), max_size=40),
    st.integers(1, 4),
    st.integers(1, 9),
    st.integers(0, 60),
    st.integers(0, 9),
)
def test_blocks_of_any_size(records: list[list[int]], entry: int, block: int, damaged: int, more: int) -> None:
    """Damage has the end of the words in its place and behind it; what follows the records makes no difference."""
    words = [number for record in records for number in (len(record), 0, *entry * record, 7)] + more * [0]
    if damaged < len(words):
        words[damaged] = -1
    expected, place = [], 0
    for _ in records:
        is_record = place + 1 < len(words) and words[place] >= 0 and words[place + 1] == 0
        expected.append(place if is_record else len(words))
        place = place + 3 + entry * words[place] if is_record else len(words)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fst_records, "_FEW", 0)
        patch.setattr(fst_records, "_MOST_WORDS", block)
        blocks = record_starts(np.array(words, np.int32), len(records), entry)
    assert blocks.tolist() == expected
    assert record_starts(np.array(words, np.int32), len(records), entry).tolist() == expected


def test_long_chains_of_records() -> None:
    """Longer than the stride in which they are found, and than a block."""
    for count in (63, 64, 65, 5000):
        sizes = np.random.default_rng(count).integers(0, 50, count)
        starts = np.append(0, np.cumsum(3 + 4 * sizes))
        words = np.zeros(starts[-1], np.int32)
        words[starts[:-1]] = sizes
        assert np.array_equal(record_starts(words, count, 4), starts[:-1])
