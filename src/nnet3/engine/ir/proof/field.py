"""Elements of a finite field instead of numbers: exact arithmetic, and random functions of elements.

An element is two numbers below the prime 2^31 - 1, drawn and computed apart: arrays (..., 2) of uint64. Two different
programs agree in one number by a chance of about 2^-31, in both numbers by a chance of about 2^-62.

Functions marked as primitive work with NumPy at once. For `Recorded` elements, primitives note instructions for
native code, with equal results.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

from nnet3.engine.ir.proof.recording import Recorded
from nnet3.engine.ir.proof.seeds import seed

F = TypeVar("F", bound=Callable[..., Any])
Elements = npt.NDArray[np.uint64]

PRIME = (1 << 31) - 1
_PRIME, _LARGEST = np.uint64(PRIME), np.uint64(PRIME - 1)
_HALF, _TOP = np.uint64(32), np.uint64(33)
_MULTIPLIERS = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)  # of splitmix64
_ODD = np.uint64(0x9E3779B97F4A7C15)
ZERO, ONE = np.zeros(2, np.uint64), np.ones(2, np.uint64)


def primitive(function: F) -> F:
    """Returns a function that leaves `Recorded` elements to the recording's method of equal name."""
    name = function.__name__

    @functools.wraps(function)
    def by_kind(*operands: Any) -> Any:
        for operand in operands:
            if isinstance(operand, Recorded):
                return getattr(operand.recording, name)(*operands)
        return function(*operands)

    return cast(F, by_kind)


@primitive
def reduced(values: Elements) -> Elements:
    """Returns values modulo the prime; values are below 2^64."""
    result: Elements = values % _PRIME
    return result


@primitive
def product(one: Elements, other: Elements) -> Elements:
    """Returns the product of two arrays, element by element."""
    return reduced(one * other)


def scaled(values: Elements, scale: float) -> Elements:
    """Returns scale * values; the scale is taken exactly, a float's fraction."""
    return values if scale == 1.0 else product(values, element(scale))


def element(number: float) -> Elements:
    """Returns the element in the place of a float, (2,): numerator / denominator."""
    numerator, denominator = float(number).as_integer_ratio()
    return np.full(2, numerator * pow(denominator, -1, PRIME) % PRIME, np.uint64)


def from_words(words: Elements) -> Elements:
    """Returns elements (..., 2) from words of native code, (...,), whose halves are the two numbers."""
    return np.stack([words & np.uint64(0xFFFFFFFF), words >> _HALF], axis=-1)


@primitive
def combined(values: Elements, coefficients: Elements) -> Elements:
    """Returns sum_b coefficients[b, o] * values[r, b]: (rows, outputs, 2) from (rows, blocks, 2), (blocks, outputs, 2).

    >>> one = np.ones((1, 2, 2), np.uint64)
    >>> combined(one, np.full((2, 1, 2), 3, np.uint64)).tolist()
    [[[6, 6]]]
    """
    if values.shape[1] == 1:
        return reduced(values * coefficients[0])
    if values.shape[1] < 5:  # products are below 2^62
        return reduced(np.add.reduce(values[:, :, None] * coefficients, 1))
    return reduced(np.add.reduce(reduced(values[:, :, None] * coefficients), 1))


@primitive
def total(values: Elements) -> Elements:
    """Returns the sum over the first axis."""
    return reduced(np.add.reduce(values, 0))


@primitive
def sums_of_ranges(values: Elements, ranges: npt.NDArray[np.int32]) -> Elements:
    """Returns the sums of rows [first, end): (ranges, ...) from (rows, ...)."""
    sums = np.concatenate([np.zeros_like(values[:1]), values.cumsum(0, dtype=np.uint64)])  # below 2^64: 2^33 rows
    return reduced(sums[ranges[:, 1]] - sums[ranges[:, 0]])


@primitive
def taken(values: Elements, rows: npt.NDArray[np.int32]) -> Elements:
    """Returns the named rows, zeros for -1."""
    found: Elements = values[rows]
    found[rows < 0] = 0
    return found


@primitive
def zero_or(values: Elements, others: Elements) -> Elements:
    """Returns `others`, but zero where values are zero."""
    return np.where((values == 0).all(axis=-1, keepdims=True), values, others)


@functools.lru_cache(maxsize=1000)
def zeros(*lengths: int) -> Elements:
    """Returns read-only zeros (*lengths, 2), with a single zero in memory."""
    return np.broadcast_to(ZERO, (*lengths, 2))


def key(*fields: object) -> np.uint64:
    """Returns a number for text and numbers, equal in all processes with an equal seed of the environment."""
    return key_of(seeded(*fields))


def seeded(*fields: object) -> tuple[object, ...]:
    """Returns text and numbers, after the seed of the environment if it has one."""
    chosen = seed()
    return (chosen, *fields) if chosen else fields


def key_of(fields: tuple[object, ...]) -> np.uint64:
    """Returns a number for text and numbers, equal in all processes."""
    digest = hashlib.blake2b(repr(fields).encode(errors="surrogatepass"), digest_size=8).digest()
    return np.uint64(int.from_bytes(digest, "little"))


def drawn(base: np.uint64 | npt.NDArray[np.uint64], *numbers: npt.NDArray[np.int64]) -> Elements:
    """Returns a random element for each combination of integers, broadcast to (..., 2)."""
    state = np.asarray(base)
    with np.errstate(over="ignore"):
        for number in numbers:
            state = _mixed((state + number.astype(np.uint64)) * _ODD)
    return _split(state)


class Drawing:
    """A sequence of random elements; different `names` give different sequences."""

    def __init__(self, *names: object) -> None:
        self.base, self._count = key("drawing", *names), 0

    def next(self, shape: tuple[int, ...]) -> Elements:
        """Returns elements of this shape; the last axis holds the two numbers of an element."""
        count = int(np.prod(shape[:-1]))
        numbers = np.arange(self._count, self._count + count)
        self._count += count
        return drawn(self.base, numbers).reshape(shape)


@primitive
def hashed(values: Elements, base: np.uint64 | npt.NDArray[np.uint64]) -> Elements:
    """Returns a random function of elements; `base` (broadcast to them without the last axis) chooses the function."""
    with np.errstate(over="ignore"):
        return _split(_mixed((words(values) + base) * _ODD))


@primitive
def words(values: Elements) -> npt.NDArray[np.uint64]:
    """Returns the two numbers of every element packed into a number of 64 bits, (...,)."""
    state: npt.NDArray[np.uint64] = values[..., 1] << _HALF
    state |= values[..., 0]
    return state


def _mixed(state: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Changes 64-bit numbers in place, by a permutation with results that look random."""
    state ^= state >> _HALF
    for multiplier in _MULTIPLIERS:
        state *= multiplier
        state ^= state >> _HALF
    return state


def _split(state: npt.NDArray[np.uint64]) -> Elements:
    result = np.empty((*state.shape, 2), np.uint64)
    np.bitwise_and(state, _PRIME, out=result[..., 0])
    np.right_shift(state, _TOP, out=result[..., 1])
    return np.minimum(result, _LARGEST, out=result)
