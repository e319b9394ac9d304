"""Beginnings of records of different lengths; each record has its number of entries."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.integer]
RECORD_WORDS = 3  # of 4 bytes, of a record without entries
_FEW = 64  # records, up to which it takes less time to read one after the other
_LONGEST_STRIDE = 64
_MOST_WORDS, _LEAST_WORDS = 1 << 20, 64  # of a block
_WORDS_OF_RECORD = 16  # of which most records have less


def record_starts(words: Integers, records: int, entry_words: int) -> Integers:
    """Returns the positions (records,) where records begin; the end behind damage.

    words: int32, from the first record on. A record is a count of 64 bits, as many entries of `entry_words` words each,
    and one word more; it tells where the next record begins. Blocks of words come one after the other, which takes
    little memory.
    """
    if records <= _FEW:
        return _one_by_one(words, records, entry_words)
    found: list[Integers] = [np.zeros(0, np.int64)]
    position, left = 0, records
    while left > 0 and position < len(words):
        block = min(max(_WORDS_OF_RECORD * left, _LEAST_WORDS), _MOST_WORDS)  # what follows may be of others
        starts = _starts_in_block(words[position : position + block + 1], entry_words)[:left]
        if not len(starts):
            break
        found.append(position + starts)
        left -= len(starts)
        last = int(found[-1][-1])
        position = last + RECORD_WORDS + entry_words * int(words[last])
    return np.concatenate([*found, np.full(left, len(words), np.int64)])


def _one_by_one(words: Integers, records: int, entry_words: int) -> Integers:
    """Does the same for a few records."""
    starts, position = np.full(records, len(words)), 0
    for record in range(records):
        if position + 1 >= len(words) or words[position] < 0 or words[position + 1] != 0:
            break
        starts[record] = position
        position += RECORD_WORDS + entry_words * int(words[position])
    return starts


def _starts_in_block(words: Integers, entry_words: int) -> Integers:
    """Returns the positions where records begin, the first one at 0, except at the last word; none without a record at
    0.

    A record can begin where a count of 64 bits has no upper half. The steps from all such positions to the next record
    are squared: they lead to the second record, to the fourth, and so on. A long chain is then a few long steps, and
    short steps between.
    """
    begins = np.flatnonzero((words[1:] == 0) & (words[:-1] >= 0))
    size, last = len(words), len(begins)
    number = np.full(size + 1, last, np.int32)  # of the beginning at each position; the last one is of no record
    number[begins] = np.arange(last)
    behind = begins + RECORD_WORDS + entry_words * words[begins].astype(np.int64)
    follow = np.append(number[np.minimum(behind, size)], np.int32(last))
    far, stride = follow, 1
    while stride < _LONGEST_STRIDE and stride * stride < last:
        far, stride = far[far], 2 * stride
    column, columns = int(number[0]), []
    while column != last:
        columns.append(column)
        column = int(far[column])
    table = np.empty((stride, len(columns)), np.int32)
    table[0] = columns
    for row in range(1, stride):
        table[row] = follow[table[row - 1]]
    in_order = table.T.reshape(-1)
    return begins[in_order[in_order != last]]
