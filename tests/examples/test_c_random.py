"""Random numbers of the GNU C library, against the library itself and numbers that it is known by."""

from __future__ import annotations

import ctypes
import platform
from statistics import mean, stdev

import pytest

from nnet3.training.examples.c_random import CRandom


def test_the_first_numbers_of_the_usual_seed() -> None:
    random = CRandom(1)
    assert [random.draw() for _ in range(4)] == [1804289383, 846930886, 1681692777, 1714636915]


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")
@pytest.mark.parametrize("seed", [0, 1, 42, -1, 2**31 - 1, -(2**31), 123456789, -987654321])
def test_numbers_are_those_of_the_library(seed: int) -> None:
    library = ctypes.CDLL(None)
    library.srand(ctypes.c_uint(seed % 2**32))
    random = CRandom(seed)
    assert [library.rand() for _ in range(40)] == [random.draw() for _ in range(40)]


def test_normal_numbers() -> None:
    random = CRandom(5)
    numbers = [random.gauss() for _ in range(4000)]
    assert abs(mean(numbers)) < 0.05
    assert stdev(numbers) == pytest.approx(1, abs=0.05)
