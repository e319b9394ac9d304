"""Random numbers of the GNU C library, against the library itself and numbers that it is known by."""

from __future__ import annotations

import ctypes
import platform

import pytest

from nnet3.training.train.c_random import c_random


def test_the_first_numbers_of_the_usual_seed() -> None:
    assert [c_random(1, before) for before in range(4)] == [1804289383, 846930886, 1681692777, 1714636915]


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")
@pytest.mark.parametrize("seed", [0, 1, 42, -1, 2**31 - 1, -(2**31), 123456789, -987654321])
def test_numbers_are_those_of_the_library(seed: int) -> None:
    library = ctypes.CDLL(None)
    library.srand(ctypes.c_uint(seed % 2**32))
    assert [library.rand() for _ in range(40)] == [c_random(seed, before) for before in range(40)]
