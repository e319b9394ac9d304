"""ElementRecording: the functions of `field` on elements yet to be computed, as native instructions.

A machine evaluates the first command of a group on `Recorded` elements, which know their future addresses. Operations
on the elements become a template of instructions (`nnet3/native/elements.c`). Further commands of the group, as at
later steps of a recurrence, are calls of the template with new addresses:

    m3 += m1 (4 rows of 2 blocks)        template 0: operand 0 = operand 0 + operand 1, 4 x 2;     call 0: m3, m1
    m7 += m5 (4 rows of 2 blocks)                                                                  call 0: m7, m5

Templates hold for any numbers of rows: ROWS stand for the numbers while a command is noted. Sizes, offsets and steps
made of ROWS are recognised by their digits. An instance of a template has the rows of some calls.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nnet3.base.native.codes import Instruction

#: Where elements lie: spaces of native code; OPERANDS + i is where operand i of a call lies in memory.
CONSTANTS, DRAWN, NUMBERS, SCRATCH, MEMORY, OPERANDS = range(6)

#: Stand for two numbers of rows of a command that is noted. What is a + b * ROWS[0] + c * ROWS[1] there is the same of
#: the rows in an instance; a is below ROWS[0], and b as many times below ROWS[1].
ROWS = 1 << 24, 1 << 44
_DIGITS = np.array([[0, ROWS[0] - 1], [24, (ROWS[1] >> 24) - 1], [44, (1 << 19) - 1]], np.int64)  # how far down, a mask

_PRIME = np.uint64((1 << 31) - 1)
Words = npt.NDArray[np.uint64]
Rows = npt.NDArray[np.integer]
Lengths = tuple[int, ...]


class Recorded:
    """Elements with known future addresses, of no axis, one or two; `shape` has an axis more, as arrays of elements."""

    __slots__ = ("at", "lengths", "recording", "space", "steps")
    __array_ufunc__ = None  # so that arrays leave sums to this class

    def __init__(self, recording: ElementRecording, space: int, at: int, lengths: Lengths, steps: Lengths) -> None:
        self.recording, self.space, self.at, self.lengths, self.steps = recording, space, at, lengths, steps

    @classmethod
    def whole(cls, recording: ElementRecording, space: int, at: int, lengths: Lengths) -> Recorded:
        """Returns elements that lie side by side."""
        return cls(recording, space, at, lengths, _steps(lengths))

    @property
    def shape(self) -> Lengths:
        return (*self.lengths, 2)

    def __len__(self) -> int:
        return self.lengths[0]

    def __add__(self, other: Any) -> Recorded:
        return self.recording.sum(self, other)

    __radd__ = __add__

    def __getitem__(self, key: tuple[slice, int | None]) -> Recorded:
        """Returns `[:, None]` or `[:, 0]`."""
        lengths, steps = self.lengths[:1], self.steps[:1]
        if key[1] is None:
            lengths, steps = (*lengths, 1, *self.lengths[1:]), (*steps, 0, *self.steps[1:])
        return Recorded(self.recording, self.space, self.at, lengths, steps)

    def copy(self) -> Recorded:
        return self.recording.made(Instruction.COPY, self.lengths, self.where)

    def swapaxes(self, one: int, other: int) -> Recorded:
        """Returns the elements with exchanged axes."""
        return Recorded(self.recording, self.space, self.at, self.lengths[::-1], self.steps[::-1])

    def over(self, lengths: Lengths) -> Recorded:
        """Returns the same elements along more axes, and along those of length 1."""
        if lengths == self.lengths:
            return self
        return Recorded(self.recording, self.space, self.at, lengths, _steps_over(self.lengths, self.steps, lengths))

    @property
    def where(self) -> Lengths:
        """The space, the first element there, and how far the next row and the next block are."""
        return self.space, self.at, *(*self.steps, 0, 0)[:2]


class _Template(NamedTuple):
    """The instructions [first, end) of a template, the number of a call's addresses, the scratch memory it takes."""

    first: int
    end: int
    num_addresses: int
    scratch: int


class NativeProgram(NamedTuple):
    """The arrays for native code: constants, instructions of instances and where these begin, addresses, tables."""

    constants: Words
    instructions: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]
    tables: npt.NDArray[np.int64]
    scratch: int  # elements that the largest instance takes


class ElementRecording:
    """Records arithmetic on elements as instructions for native code: templates, instances, constants and tables.

    A method named as a function of `field` takes the function's arguments and records the call.
    """

    def __init__(self) -> None:
        self._templates: list[_Template] = []
        self._instances: dict[tuple[int, Lengths], int] = {}
        self._instructions: list[list[int]] = []
        self._constants: list[Words] = [np.zeros(1, np.uint64)]
        self._tables: list[npt.NDArray[np.int64]] = [np.zeros(1, np.int64)]
        self._num_constants = self._num_in_tables = 1
        self._used = 0
        self._known: dict[int, tuple[Recorded, Any]] = {}

    def finish(self, num_addresses: int) -> int:
        """End a template that is called with `num_addresses`; returns its number."""
        first = self._templates[-1].end if self._templates else 0
        self._templates.append(_Template(first, len(self._instructions), num_addresses, self._used))
        self._used = 0
        return len(self._templates) - 1

    def instance(self, template: int, rows: Lengths) -> int:
        """Returns the number of a template's instance with these `rows`; () for a template noted with its own rows."""
        return self._instances.setdefault((template, rows), len(self._instances))

    def native_program(self) -> NativeProgram:
        """Returns the instances of templates, as native code takes them."""
        templates = np.array([self._templates[number] for number, _ in self._instances], np.int64)
        first, end, counts, scratch = templates.reshape(-1, 4).T
        lengths = end - first
        starts = np.concatenate([[0], lengths.cumsum()])
        which = np.repeat(np.arange(len(lengths)), lengths)  # instance of each instruction
        noted = np.array(self._instructions, np.int64)[np.arange(len(which)) + (first - starts[:-1])[which]]
        rows = np.array([(*rows, 0, 0)[:2] for _, rows in self._instances], np.int64)
        sizes = _of_rows(noted, rows[which, :, None])
        return NativeProgram(
            np.concatenate(self._constants), sizes, starts, counts.copy(), np.concatenate(self._tables),
            int(_of_rows(scratch[:, None], rows[:, :, None]).max()),
        )  # fmt: skip

    # ---- elements ----

    def memory(self, space: int, at: int, lengths: Lengths, of_row: int) -> Recorded:
        """Returns the elements of a block of memory whose rows lie `of_row` apart."""
        return Recorded(self, space, at, lengths, (of_row, 1)[: len(lengths)])

    def elements(self, values: Any) -> Recorded:
        """Returns elements; those of an array (..., 2) are known."""
        return values if isinstance(values, Recorded) else self._constant(values, values.shape[:-1])

    def zeros(self, lengths: Lengths) -> Recorded:
        """Returns zeros, which are the first constant again and again."""
        return Recorded(self, CONSTANTS, 0, lengths, (0,) * len(lengths))

    def _constant(self, values: Words, lengths: Lengths) -> Recorded:
        """Returns known values, elements (..., 2) or words, as constants."""
        known = self._known.get(id(values))
        if known is not None:
            return known[0]
        own = _one_of_equal(values, len(lengths))
        if values.ndim > len(lengths):  # sums of what is known may not be reduced yet
            own = own % _PRIME
            own = own[..., 0] | own[..., 1] << np.uint64(32)
        steps = [0 if n == 1 else step for n, step in zip(own.shape, _steps(own.shape), strict=True)]
        found = Recorded(self, CONSTANTS, self._num_constants, lengths, tuple(steps))
        self._constants.append(own.ravel())
        self._num_constants += own.size
        self._known[id(values)] = found, values  # kept, so that nothing else gets its id
        return found

    def _table(self, numbers: Rows) -> int:
        """Returns where a table lies among all tables."""
        self._tables.append(np.ascontiguousarray(numbers, np.int64).ravel())
        self._num_in_tables += numbers.size
        return self._num_in_tables - numbers.size

    # ---- instructions ----

    def made(self, code: int, lengths: Lengths, *operands: Lengths, inner: int = 0, table: int = 0) -> Recorded:
        """Returns the result of an instruction on operands, in scratch memory."""
        result = Recorded.whole(self, SCRATCH, self._used, lengths)
        self._used += prod(lengths)
        self._write(code, result, *operands, inner=inner, table=table)
        return result

    def _write(self, code: int, result: Recorded, *operands: Lengths, inner: int = 0, table: int = 0) -> None:
        all_of_them = result.where, *operands, *[(MEMORY, 0, 0, 0)] * (2 - len(operands))
        columns = [number for numbers in zip(*all_of_them, strict=True) for number in numbers]
        self._instructions.append([int(code), *(*result.lengths, 1, 1)[:2], inner, *columns, table])

    def _by_element(self, code: int, one: Recorded, other: Recorded) -> Recorded:
        lengths = _broadcast(one.lengths, other.lengths)
        return self.made(code, lengths, one.over(lengths).where, other.over(lengths).where)

    def write(self, target: Recorded, values: Any) -> None:
        """Write elements to a target."""
        self._write(Instruction.COPY, target, self.elements(values).over(target.lengths).where)

    def add(self, target: Recorded, values: Any) -> None:
        """Add elements to those of a target."""
        self._write(Instruction.ADD, target, target.where, self.elements(values).over(target.lengths).where)

    def randomize(self, target: Recorded, counter: Recorded) -> None:
        """Write random elements to a target: the next elements drawn with this counter."""
        self._write(Instruction.RANDOM, target, counter.where)

    def draws(self, count: int, counter: Recorded) -> Recorded:
        """Returns the next random elements of a counter, (count, 2)."""
        return self.made(Instruction.RANDOM, (count,), counter.where)

    def gathered(self, where: Rows, blocks: int) -> Recorded:
        """Returns the rows that begin at the given elements of memory, zeros for -1."""
        return self._taken(Recorded(self, MEMORY, 0, (0, blocks), (1, 1)), where)

    def send(self, values: Any, where: Rows) -> None:
        """Add rows to the rows that begin at the given elements of memory; rows with -1 go nowhere."""
        values = self.elements(values)
        memory = Recorded(self, MEMORY, 0, values.lengths, (1, 1))
        self._write(Instruction.SEND, memory, values.where, table=self._table(where))

    # ---- the functions of `field` ----

    def reduced(self, values: Recorded) -> Recorded:
        return values

    def sum(self, one: Any, other: Any) -> Recorded:
        for known, added in ((one, other), (other, one)):
            if _is_zero(known):
                return self.elements(added).over(_broadcast(one.shape[:-1], other.shape[:-1]))
        return self._by_element(Instruction.ADD, self.elements(one), self.elements(other))

    def product(self, one: Any, other: Any) -> Recorded:
        return self._by_element(Instruction.MULTIPLY, self.elements(one), self.elements(other))

    def combined(self, values: Recorded, coefficients: Any) -> Recorded:
        blocks, outputs = coefficients.shape[:2]
        known = self.elements(coefficients)
        if values.lengths[1] != blocks:
            raise ValueError(f"elements {values.lengths} are combined by {blocks} coefficients")
        if blocks == 1:
            return self._by_element(Instruction.MULTIPLY, values, known)
        return self.made(Instruction.COMBINE, (len(values), outputs), values.where, known.where, inner=blocks)

    def total(self, values: Recorded) -> Recorded:
        made = self.made(Instruction.TOTAL, (1, *values.lengths[1:]), values.where, inner=len(values))
        return Recorded(self, SCRATCH, made.at, made.lengths[1:], made.steps[1:])

    def sums_of_ranges(self, values: Recorded, ranges: Rows) -> Recorded:
        _check_rows(ranges - 1, values)
        return self.made(
            Instruction.RANGES, (len(ranges), *values.lengths[1:]), values.where, table=self._table(ranges)
        )

    def taken(self, values: Recorded, rows: Rows) -> Recorded:
        _check_rows(rows, values)
        return self._taken(values, rows)

    def _taken(self, values: Recorded, rows: Rows) -> Recorded:
        return self.made(Instruction.TAKE, (len(rows), *values.lengths[1:]), values.where, table=self._table(rows))

    def zero_or(self, values: Recorded, others: Recorded) -> Recorded:
        return self._by_element(Instruction.ZERO_OR, values, others)

    def words(self, values: Recorded) -> Recorded:
        return values

    def hashed(self, values: Any, base: Recorded) -> Recorded:
        return self._by_element(Instruction.HASH, self.elements(values), base)

    def rows(self, base: Recorded, count: int) -> Recorded:
        """Returns what `field.drawn` gives for numbers from 0 on, (count, 2)."""
        return self.draws(count, base.copy())

    def signed(self, values: Recorded, keys: Words) -> Recorded:
        known = self._constant(keys, keys.shape)
        return self.made(Instruction.SIGNS, values.lengths, values.where, (known.space, known.at, 0, 0))


def _of_rows(noted: npt.NDArray[np.int64], rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Returns numbers (n, fields) for the rows (n, 2, 1) of instances; instances without rows keep noted numbers."""
    shifts, masks = _DIGITS.T
    own, *times = (noted >> shift & mask for shift, mask in zip(shifts, masks, strict=True))
    return np.where(rows[:, 0] == 0, noted, own + times[0] * rows[:, 0] + times[1] * rows[:, 1])


def _is_zero(values: Any) -> bool:
    """True if elements are known to be zeros."""
    if isinstance(values, Recorded):
        return (values.space, values.at) == (CONSTANTS, 0)
    return not np.count_nonzero(_one_of_equal(values, values.ndim))


def _one_of_equal(values: Words, axes: int) -> Words:
    """Returns an array cut to its first part along each of the first `axes` axes with equal parts."""
    return values[tuple([slice(1) if step == 0 else slice(None) for step in values.strides[:axes]])]


def _check_rows(rows: Rows, values: Recorded) -> None:
    if rows.size and not -1 <= rows.min() <= rows.max() < len(values):
        raise IndexError(f"rows {rows.min()} to {rows.max()} of {len(values)}")


@lru_cache(maxsize=10_000)
def _broadcast(one: Lengths, other: Lengths) -> Lengths:
    """Returns the common axes of two broadcast arrays. Raises ValueError if they cannot be broadcast."""
    short, long = sorted((one, other), key=len)
    ends = long[len(long) - len(short) :]
    if not all(1 in pair or pair[0] == pair[1] for pair in zip(short, ends, strict=True)):
        raise ValueError(f"elements {one} and {other} cannot be broadcast together")
    joined = [own if other == 1 else other for own, other in zip(short, ends, strict=True)]
    return (*long[: len(long) - len(short)], *joined)


@lru_cache(maxsize=10_000)
def _steps_over(own: Lengths, steps: Lengths, lengths: Lengths) -> Lengths:
    """Returns the steps of elements along more axes. Raises ValueError if they do not have these."""
    if _broadcast(own, lengths) != lengths:
        raise ValueError(f"elements {own} cannot be broadcast to {lengths}")
    missing = len(lengths) - len(own)
    pairs = zip(own, steps, lengths[missing:], strict=True)
    return (0,) * missing + tuple([0 if one == 1 != length else step for one, step, length in pairs])


@lru_cache(maxsize=10_000)
def _steps(lengths: Lengths) -> Lengths:
    """Returns the distances of elements along each axis, if they lie side by side."""
    return () if not lengths else (*[prod(lengths[k + 1 :]) for k in range(len(lengths) - 1)], 1)
