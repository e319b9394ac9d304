"""Extents: row numbers that may depend on the length, base + slope * k for k periods beyond the shortest length."""

from __future__ import annotations

from typing import TypeVar

from nnet3.engine.families.polynomial import Polynomial

#: A number of rows: the same for all lengths, or one that grows with the length.
Extent = int | Polynomial
E = TypeVar("E", int, Extent)


def extent(base: int, slope: int) -> Extent:
    """Returns the number base + slope * k, plain if it does not depend on k."""
    grown: Extent = base + slope * Polynomial("k") if slope else base
    return grown


def base_and_slope(number: Extent) -> tuple[int, int]:
    if isinstance(number, int):
        return number, 0
    return number.terms.get((), 0), number.terms.get(("k",), 0)


def larger(one: E, other: E) -> E:
    """Returns the number that is never below the other number. Raises NotAffineError if which depends on the length."""
    base, slope = base_and_slope(one - other)
    return one if base >= 0 <= slope else other if base <= 0 >= slope else max(one, other)


def smaller(one: E, other: E) -> E:
    return -larger(-one, -other)
