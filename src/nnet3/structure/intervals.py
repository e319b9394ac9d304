"""Intervals of times at which nodes of a network are available, given a window of input."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

ALWAYS = 2**60
"""A bound that no time reaches."""


class NotIntervalsError(Exception):
    """The times available from a window of input are no interval at some node, or not for every length of window."""


@dataclass(frozen=True)
class Interval:
    """The times from `low` to `high`, for each shift of the window (shifts,). Empty: from ALWAYS to -ALWAYS."""

    low: npt.NDArray[np.int64]
    high: npt.NDArray[np.int64]

    @classmethod
    def never(cls, num_shifts: int) -> Interval:
        return cls(np.full(num_shifts, ALWAYS), np.full(num_shifts, -ALWAYS))

    @classmethod
    def between(cls, low: npt.NDArray[np.int64], high: npt.NDArray[np.int64]) -> Interval:
        """Makes the intervals from `low` to `high`; they are empty where low > high."""
        return cls(np.where(low > high, ALWAYS, low), np.where(low > high, -ALWAYS, high))

    def equals(self, other: Interval) -> bool:
        return np.array_equal(self.low, other.low) and np.array_equal(self.high, other.high)

    def shifted(self, t_offset: int, x_offset: int) -> Interval:
        """The times t such that t + t_offset is in it. Raises NotIntervalsError for an offset in x."""
        if x_offset:
            raise NotIntervalsError
        if not t_offset:
            return self
        low = np.where(abs(self.low) == ALWAYS, self.low, self.low - t_offset)
        return Interval(low, np.where(abs(self.high) == ALWAYS, self.high, self.high - t_offset))

    def rounded(self, t_modulus: int) -> Interval:
        """The times t such that t, rounded down to a multiple of `t_modulus`, is in it."""
        low = np.where(abs(self.low) == ALWAYS, self.low, -(-self.low // t_modulus) * t_modulus)
        past = (self.high // t_modulus + 1) * t_modulus
        return Interval.between(low, np.where(abs(self.high) == ALWAYS, self.high, past - 1))

    def replaced(self, variable: str, value: int) -> Interval:
        """All times if the time `value` is in it, else none. Raises NotIntervalsError for an x other than 0."""
        if variable == "t":
            inside = (self.low <= value) & (value <= self.high)
            return Interval(np.where(inside, -ALWAYS, ALWAYS), np.where(inside, ALWAYS, -ALWAYS))
        if value:
            raise NotIntervalsError
        return self


ALL_TIMES = Interval(np.array([-ALWAYS]), np.array([ALWAYS]))
