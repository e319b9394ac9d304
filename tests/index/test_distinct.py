"""`distinct` against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from nnet3.index import distinct


@pytest.mark.parametrize("numbers", [[], [5], [3, 1, 3, 2, 1], [[7, 7], [0, -1]], [2**40, -(2**40), 2**40]])
def test_distinct_numbers_are_those_of_numpy(numbers: list) -> None:
    array = np.array(numbers, dtype=np.int64)
    assert distinct(array).tolist() == np.unique(array).tolist()
    assert array.tolist() == numbers, "the array stays as it is"


def test_type_is_kept() -> None:
    assert distinct(np.array([2, 1, 2], dtype=np.int32)).dtype == np.int32
