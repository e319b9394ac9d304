"""Runs of records that look alike."""

from __future__ import annotations

import numpy as np
import pytest

from nnet3.base.kaldi_io.index_vector import run_length
from tests.call_count import count_calls


@pytest.mark.parametrize("position", [0, 5])
@pytest.mark.parametrize("length", [1, 2, 8, 9, 10, 24, 25, 26, 300])
def test_a_run_ends_where_a_fixed_byte_differs(length: int, position: int) -> None:
    """Records of 3 bytes, of which the first and the last are looked at."""
    records = np.zeros((400, 3), np.uint8)
    records[:, 1] = np.arange(400) % 256
    records[:, 2] = 7
    records[length, 2] = 8
    data = b"\7" * position + records.tobytes()
    assert run_length(data, position, 3, 400, [0, 2]) == length
    assert run_length(data, position, 3, length, [0, 2]) == length
    assert run_length(data, position, 3, 400, [0]) == 400
    assert run_length(data, position, 3, 400, [0, 1]) == 1


def test_the_work_grows_slower_than_the_run() -> None:
    data = bytes(3 * 200_000)
    few, many = (count_calls(run_length, data, 0, 3, count, [0, 1, 2]) for count in (20, 200_000))
    assert many < 20 * few
    limited = bytes(30) + b"\1" * 3 * 200_000
    assert count_calls(run_length, limited, 0, 3, 200_000, [0, 1, 2]) <= 2 * few
