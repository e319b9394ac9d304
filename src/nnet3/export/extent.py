"""Extents: row numbers that may depend on the length, base + slope * k."""

from __future__ import annotations

from dataclasses import dataclass
from functools import total_ordering

from nnet3.errors import ExportError


@total_ordering
@dataclass(frozen=True)
class Growing:
    """The number base + slope * k, for k = 0, 1, ... periods beyond the shortest length; the slope is not 0."""

    base: int
    slope: int

    def __add__(self, other: Extent) -> Extent:
        base, slope = _parts(other)
        return extent(self.base + base, self.slope + slope)

    __radd__ = __add__

    def __neg__(self) -> Growing:
        return Growing(-self.base, -self.slope)

    def __sub__(self, other: Extent) -> Extent:
        return self + -other

    def __rsub__(self, other: int) -> Extent:
        return -self + other

    def __mul__(self, factor: int) -> Extent:
        return extent(self.base * factor, self.slope * factor)

    __rmul__ = __mul__

    def __le__(self, other: Extent) -> bool:
        return not_above(self, other)

    def __lt__(self, other: Extent) -> bool:
        return not not_above(other, self)


#: A number of rows: the same for all lengths, or one that grows with the length.
Extent = int | Growing


def extent(base: int, slope: int) -> Extent:
    """Returns the number base + slope * k, plain if it does not depend on k."""
    return Growing(base, slope) if slope else base


def not_above(one: Extent, other: Extent) -> bool:
    """Returns whether `one` <= `other` for all k. Raises ExportError if that depends on k."""
    (base, slope), (other_base, other_slope) = _parts(one), _parts(other)
    if base <= other_base and slope <= other_slope:
        return True
    if base > other_base and slope >= other_slope:
        return False
    raise ExportError("the order of rows depends on the length of the utterance: export a fixed chunk")


def _parts(number: Extent) -> tuple[int, int]:
    return (number.base, number.slope) if isinstance(number, Growing) else (number, 0)
