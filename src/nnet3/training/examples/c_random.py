"""Random numbers of the GNU C library, from which Kaldi's programs draw on Linux."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable

import numpy as np

_MODULUS = 2**31 - 1
_LONG_LAG, _SHORT_LAG = 31, 3
_DISCARDED = 310  # numbers that srand draws and throws away
_RARE = 128  # a probability below this share of the largest number is drawn in two steps


class CRandom:
    """Draws what `rand()` gives after `srand(seed)`: x[n] = x[n - 3] + x[n - 31], halved."""

    def __init__(self, seed: int):
        self.seed(seed)

    def seed(self, seed: int) -> None:
        """Begins again, as `srand(seed)` does."""
        first = (seed + 2**31) % 2**32 - 2**31 or 1  # as an int32
        numbers = [first % 2**32, *(first * pow(16807, power, _MODULUS) % _MODULUS for power in range(1, _LONG_LAG))]
        self.set_state(numbers[_SHORT_LAG:] + numbers[:_SHORT_LAG])
        for _ in range(_DISCARDED):
            self.draw()

    def state(self) -> list[int]:
        """Returns the 31 numbers on which all later draws depend."""
        return list(self._last)

    def set_state(self, state: Iterable[int]) -> None:
        """Goes on as from the moment of `state`."""
        self._last = deque(state, maxlen=_LONG_LAG)

    def draw(self) -> int:
        """Returns the next number, in 0 .. 2^31 - 1."""
        number = (self._last[-_SHORT_LAG] + self._last[0]) % 2**32
        self._last.append(number)
        return number // 2

    def uniform(self) -> float:
        """Returns a number above 0 and up to 1, a float32 (Kaldi: RandUniform)."""
        return float(np.float32((self.draw() + 1.0) / (2.0**31 + 1.0)))

    def integer(self, low: int, high: int) -> int:
        """Returns an integer between two bounds, both included; equal bounds draw no number (Kaldi: RandInt)."""
        return low if low == high else low + self.draw() % (high - low + 1)

    def gauss(self) -> float:
        """Returns a number of the standard normal distribution (Kaldi: RandGauss)."""
        radius = math.sqrt(-2.0 * math.log(self.uniform()))
        return radius * math.cos(2.0 * math.pi * self.uniform())

    def happens(self, probability: float) -> bool:
        """Returns true with a probability; 0 and 1 draw no number (Kaldi: WithProb)."""
        if probability in (0.0, 1.0):
            return probability == 1.0
        if probability * _MODULUS < _RARE:
            return self.draw() < _MODULUS // _RARE and self.happens(probability * _RARE)
        return self.draw() < probability * 2.0**31
