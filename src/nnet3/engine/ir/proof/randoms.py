"""Randoms: the random functions of kernels, the same in all compared programs."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from nnet3.base.index import IndexTable
from nnet3.engine.ir.kernel import KernelInfo, named_slice
from nnet3.engine.ir.proof import field
from nnet3.engine.ir.proof.columns import Columns, ColumnSpan
from nnet3.engine.ir.proof.field import Elements, reduced

ROW_NUMBERS = ("number of a row",)


class KernelSlice(NamedTuple):
    """The kernel named by a command: the whole kernel, or the slice for the columns [first, end) of its input."""

    name: str
    first: int = 0
    end: int = -1
    adds: bool = False
    goes_backward: bool = False

    @property
    def is_whole(self) -> bool:
        return self.end < 0


def slice_of(info: KernelInfo) -> KernelSlice:
    """Returns the kernel and the columns that `info` stands for."""
    return _named(info.name)


@lru_cache(maxsize=10_000)
def _named(name: str) -> KernelSlice:
    found = named_slice(name)
    return KernelSlice(name) if found is None else KernelSlice(*found)


def input_span(info: KernelInfo, operand: int, width: int) -> ColumnSpan:
    """Returns the columns of an input, as columns of the kernel's input or, where they are passed on, of its output."""
    sliced = slice_of(info)
    if (operand == 1 and sliced.adds) or (sliced.is_whole and info.inputs[operand].passes_deriv):
        return ColumnSpan(("output", sliced.name), 0, width)
    if not sliced.is_whole and operand > 0:
        return ColumnSpan((_packed(sliced), sliced.name), 0, width)
    return ColumnSpan(("input", sliced.name, operand), sliced.first, width)


def output_span(info: KernelInfo, num_inputs: int, width: int) -> ColumnSpan:
    """Returns the columns of an output, as columns of the kernel's; a slice without inputs writes packed weights."""
    sliced = slice_of(info)
    return ColumnSpan(("output" if sliced.is_whole or num_inputs else _packed(sliced), sliced.name), 0, width)


def _packed(sliced: KernelSlice) -> str:
    return "packed backward" if sliced.goes_backward else "packed"


class Randoms:
    """Random elements by owner and by columns; another `seed` gives others.

    `looks_at`: at which rows kernels with indexes look, if programs differ in the order of rows (see `linked`).
    """

    def __init__(
        self, columns: Columns, seed: int, looks_at: Callable[[str, IndexTable], IndexTable] | None = None
    ) -> None:
        self.columns, self.seed, self.looks_at = columns, seed, looks_at
        self._drawn: dict[Hashable, Elements] = {}
        self._seeds = field.seeded(seed)
        self._keys: dict[Hashable, np.uint64] = {}

    def key(self, *what: Hashable) -> np.uint64:
        """Returns a number for text and numbers."""
        found = self._keys.get(what)
        if found is None:
            found = self._keys[what] = field.key_of((*self._seeds, *what))
        return found

    def of_blocks(self, what: tuple[Hashable, ...], *spans: ColumnSpan) -> Elements:
        """Returns a random element for each choice of one block from each span, (blocks of the first span, ..., 2)."""
        found = self._drawn.get((what, spans))
        if found is None:
            axes = np.ix_(*map(self.columns.first_columns, spans))
            found = self._drawn[what, spans] = field.drawn(self.key(*what), *axes)
        return found

    def of_rows(self, what: tuple[Hashable, ...], count: int) -> Elements:
        """Returns an element for each number of a row, (count, 2)."""
        known = self._drawn.get((what, count))
        if known is None:
            known = self._drawn[what, count] = field.drawn(self.key(*what), np.arange(count))
        return known

    def numbers(self, count: int) -> Elements:
        """Returns an element for each number of a row, (count, 2): the same for all kernels."""
        return self.of_rows(ROW_NUMBERS, count)

    def number(self, row: int) -> Elements:
        """Returns the element for the number of a row, (2,)."""
        return field.drawn(self.key(*ROW_NUMBERS), np.asarray(row))

    def zeros(self, *lengths: int) -> Elements:
        """Returns read-only zeros (*lengths, 2), with a single zero in memory."""
        return field.zeros(*lengths)

    def digest(self, what: tuple[Hashable, ...], values: Elements, span: ColumnSpan) -> Elements:
        """Returns a random combination of the blocks of each row, (rows, 2)."""
        return field.combined(values, self.of_blocks((*what, "digest"), span)[:, None])[:, 0]

    def digest_of_matrix(self, what: tuple[Hashable, ...], values: Elements, span: ColumnSpan) -> Elements:
        """Returns a random combination of all elements, (2,)."""
        rows = self.of_rows((*what, "rows"), len(values))
        return field.total(field.product(rows, self.digest(what, values, span)))

    def hashed(self, values: Elements, *what: Hashable) -> Elements:
        """Returns a random function of elements, of the same shape."""
        return field.hashed(values, self.key(*what))

    def of_call(self, change: Elements, what: tuple[Hashable, ...], count: int) -> Elements:
        """Returns the change by one call: a random function of a sum over its rows, and of the number of rows.

        Natural gradients learn something else of rows together than of parts, and statistics count calls.
        """
        return self.hashed(reduced(change + self.number(count)), *what)

    def hashed_for_blocks(self, values: Elements, what: tuple[Hashable, ...], span: ColumnSpan) -> Elements:
        """Returns a random function of elements (rows, 2) for each block of a span, (rows, blocks, 2)."""
        return field.hashed(values[:, None], field.words(self.of_blocks(what, span)))


_SIGN_KEYS = np.array([field.key("sign"), field.key("mark of a sign")])


def signs(values: Elements) -> Elements:
    """Returns whether each element is positive: a random function that keeps signs as they are, and zero.

    A sign is an element with a second number computed from the first.
    """
    return signed(values, _SIGN_KEYS)


@field.primitive
def signed(values: Elements, keys: np.ndarray) -> Elements:
    made = field.hashed(values, keys[0])
    made[..., 1] = _mark(made, keys[1])
    is_sign = (values[..., 1] == _mark(values, keys[1])) | (values == 0).all(axis=-1)
    return np.where(is_sign[..., None], values, made)


def _mark(values: Elements, key: np.uint64) -> Elements:
    alone = values.copy()
    alone[..., 1] = 0
    return field.hashed(alone, key)[..., 1]
