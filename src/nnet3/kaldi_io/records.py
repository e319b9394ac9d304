"""Runs of equally long records in raw data, so that array code can take a run at a time."""

from __future__ import annotations

import numpy as np

from nnet3.kaldi_io.parse_numbers import Buffer

_MOST_RECORDS = 1 << 16  # looked at together


def run_length(data: Buffer, position: int, size: int, most: int, fixed: list[int]) -> int:
    """How many records of `size` bytes from `position` on have the bytes at offsets `fixed` of the first: 1..most.

    It looks ahead in growing steps, so that the work is in proportion to the run that it finds.
    """
    first = np.frombuffer(data, np.uint8, size, position)[fixed]
    length, step = 1, 8
    while length < most:
        count = min(step, most - length)
        records = np.frombuffer(data, np.uint8, count * size, position + length * size).reshape(count, size)
        differs = (records[:, fixed] != first).any(axis=1)
        if differs.any():
            return length + int(differs.argmax())
        length += count
        step = min(2 * step, _MOST_RECORDS)
    return length
