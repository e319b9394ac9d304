"""Continued tables: integers that a few small tables of one layout have in common, for every size.

Two tables of 20 and 22 rows determine all larger tables:

    >>> import numpy as np
    >>> from nnet3.engine.families.number_table import table_of
    >>> members = [[table_of(np.concatenate([np.arange(n), n + 5 + np.arange(n)]))] for n in (10, 11)]
    >>> continued(members).at(2)[0].values.ravel().tolist()
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from nnet3.engine.families.number_table import NumberTable

_LOOK_AHEAD = 8  # entries that have to agree behind what comes in addition
_END = -1
_LONG = 1024  # rows of a piece on average: tables with fewer are filled all at once


class NotAffineError(Exception):
    """Tables do not continue one another; `table` is the number of the first failing table."""

    def __init__(self, message: str, table: int = -1) -> None:
        super().__init__(message)
        self.table = table


class TablePiece(NamedTuple):
    """Rows of a table that repeat iterations + k * more_iterations times, see `Continued`. Arrays: (rows, columns)."""

    iterations: int
    more_iterations: int
    base: np.ndarray
    slope: np.ndarray
    step: np.ndarray
    labels: np.ndarray  # (rows,)


class Continued:
    """Tables as functions of k, the number of periods beyond the smallest member; equal tables are made once.

    `tables` are two for each different table. The first has a row for each piece: period p, iterations, more
    iterations; the piece repeats p rows iterations + k * more iterations times. The second has the p rows of all
    pieces: base, slope and step of each column; row j of iteration i is base[j] + k * slope[j] + i * step[j]. A step
    does not depend on k: there are more iterations the larger k is, and numbers would grow with its square. Kinds of
    the second are twice the labels of the table, and 1 more where a piece begins. `numbers`: the number of each table
    among the different tables."""

    def __init__(self, tables: Sequence[NumberTable], numbers: Sequence[int]) -> None:
        self.tables, self.numbers = tables, numbers
        widths = np.array([rows.values.shape[1] for rows in tables[1::2]], dtype=np.int64)
        groups = [np.flatnonzero(widths == width) for width in np.unique(widths)]
        self._groups = [
            _Joined([tables[2 * i] for i in group], [tables[2 * i + 1] for i in group])
            for group in map(np.ndarray.tolist, groups)
        ]
        position = np.argsort(np.concatenate([np.zeros(0, np.int64), *groups]))
        self._position = position[np.array(numbers, dtype=np.int64)]

    def lengths(self, k: int) -> np.ndarray:
        """Returns the rows of each table, (tables,)."""
        return np.concatenate([np.zeros(0, np.int64), *(group.lengths(k) for group in self._groups)])[self._position]

    @cached_property
    def _growth(self) -> tuple[list[int], list[int]]:
        """The rows of each table for k = 0, and the additional rows of each step."""
        first = self.lengths(0)
        return first.tolist(), (self.lengths(1) - first).tolist()

    def k_of(self, lengths: Sequence[int]) -> int:
        """Returns the k for the given numbers of rows of tables, -1 if no k fits or no table grows."""
        first, more = self._growth
        beyond = [length - few for length, few in zip(lengths, first, strict=True)]
        k = max((rows // each for rows, each in zip(beyond, more, strict=True) if each), default=-1)
        return k if beyond == [k * each for each in more] else -1

    def at(self, k: int, left_out: int = -1) -> list[NumberTable]:
        """Returns the tables, with int32 values. Equal ones may be one object. Table `left_out` is empty."""
        position = int(self._position[left_out]) if left_out >= 0 else -1
        found: list[NumberTable] = []
        for group in self._groups:
            found += group.at(k, position - len(found))
        return [found[position] for position in self._position.tolist()]

    def part(self, numbers: Sequence[int]) -> Continued:
        """Returns some of the tables."""
        chosen = [2 * self.numbers[number] for number in numbers]
        return Continued([self.tables[position + half] for position in chosen for half in (0, 1)], range(len(chosen)))

    def check_size(self, k: int) -> None:
        """Raise NotAffineError if `at(k)` would, whose numbers have 32 bits at most."""
        for group in self._groups:
            group.check_size(k)

    def pieces(self, number: int) -> Iterator[TablePiece]:
        """Yields the pieces of a table."""
        pieces, rows = self.tables[2 * self.numbers[number] : 2 * self.numbers[number] + 2]
        start = 0
        for period, iterations, more_iterations in pieces.values.tolist():
            own = slice(start, start + period)
            base, slope, step = np.split(rows.values[own].astype(np.int64), 3, axis=1)
            yield TablePiece(iterations, more_iterations, base, slope, step, rows.labels[own] >> 1)
            start += period

    def moves_by(self, step: Sequence[int]) -> bool:
        """True if additional rows are repeated rows, moved on by `step` each, and rows behind move on by `step` too."""
        return all(group.moves_by(np.array(step)) for group in self._groups)

    def check(self, k: int, tables: Sequence[NumberTable]) -> None:
        """Raise NotAffineError, with the number of the first wrong table, unless tables equal the result of `at(k)`."""
        differs = np.flatnonzero(self.lengths(k) != [len(table.labels) for table in tables])
        if len(differs):
            raise NotAffineError("it has another length", int(differs[0]))
        same: set[tuple[int, int]] = set()
        for number, (one, other) in enumerate(zip(self.at(k), tables, strict=True)):
            if (id(one), id(other)) in same:
                continue
            if not (np.array_equal(one.values, other.values) and np.array_equal(one.labels, other.labels)):
                raise NotAffineError("it is not affine", number)
            same.add((id(one), id(other)))


class _Joined:
    """Tables with equally many columns, joined to one; see `Continued`."""

    def __init__(self, pieces: Sequence[NumberTable], rows: Sequence[NumberTable]) -> None:
        shapes = np.concatenate([table.values for table in pieces]).astype(np.int64)
        self.period, self.iterations, self.more_iterations = shapes.T
        self.first = np.cumsum(self.period) - self.period
        self.rows = np.split(np.concatenate([table.values for table in rows]).astype(np.int64), 3, axis=1)
        self.labels = np.concatenate([table.labels for table in rows]) >> 1
        self.ends_of_pieces = np.cumsum([0, *(len(table.labels) for table in pieces)])
        self._num_pieces = np.diff(self.ends_of_pieces)
        self._period, self._first = self.period.astype(np.int32), self.first.astype(np.int32)
        base, *changes = self.rows
        varies = (changes[0] != 0) | (changes[1] != 0) | (base != base.astype(np.int32))  # mostly without NO_TIME
        largest, slope, step = [int(np.abs(rows[varies]).max(initial=0)) for rows in self.rows]
        iterations, more_iterations = int(self.iterations.max(initial=0)), int(self.more_iterations.max(initial=0))
        #: The largest k up to which numbers have 32 bits for certain.
        self._sure = (np.iinfo(np.int32).max - largest - iterations * step) // max(slope + more_iterations * step, 1)

    def lengths(self, k: int) -> np.ndarray:
        return np.diff(_starts((self.iterations + k * self.more_iterations) * self.period)[self.ends_of_pieces])

    def moves_by(self, change: np.ndarray) -> bool:
        _, slope, step = self.rows
        grows = np.repeat(self.more_iterations > 0, self.period)
        stays, moves = (slope == 0).all(axis=1), (slope == change).all(axis=1)
        return bool(np.where(grows, stays & (step == change).all(axis=1), stays | moves).all())

    def at(self, k: int, left_out: int = -1) -> list[NumberTable]:
        iterations = self.iterations + k * self.more_iterations
        if 0 <= left_out < len(self.ends_of_pieces) - 1:
            iterations[slice(*self.ends_of_pieces[left_out : left_out + 2])] = 0
        self.check_size(k)
        base, slope, step = self.rows
        first, step = (base + k * slope).astype(np.int32), step.astype(np.int32)
        lengths = iterations * self.period
        starts = _starts(lengths)
        ends = starts[self.ends_of_pieces]
        is_long = ends[1:] - ends[:-1] > _LONG * self._num_pieces
        if is_long.any():
            lengths = np.where(np.repeat(is_long, self._num_pieces), 0, lengths)
            starts = _starts(lengths)
            ends = starts[self.ends_of_pieces]
        piece = np.repeat(np.arange(len(lengths)), lengths)
        position = np.arange(len(piece), dtype=np.int32) - starts.astype(np.int32)[piece]
        iteration, row = np.divmod(position, self._period[piece])
        row += self._first[piece]
        values, labels = step.take(row, 0), self.labels.take(row)
        values *= iteration[:, None]
        values += first.take(row, 0)
        found = [NumberTable(values[one:other], labels[one:other]) for one, other in pairwise(ends.tolist())]
        for table in np.flatnonzero(is_long).tolist():
            found[table] = self._long(range(*self.ends_of_pieces[table : table + 2]), iterations, first, step)
        return found

    def check_size(self, k: int) -> None:
        if 0 <= k <= self._sure:
            return
        iterations = self.iterations + k * self.more_iterations
        base, slope, step = self.rows
        first = base + k * slope
        last = first + (np.repeat(iterations, self.period) - 1)[:, None] * step
        if any((rows != rows.astype(np.int32)).any() for rows in (first, last)):
            raise NotAffineError("it has numbers of more than 32 bits")

    def _long(self, pieces: range, iterations: np.ndarray, first: np.ndarray, step: np.ndarray) -> NumberTable:
        """Returns the table of the pieces, filled piece by piece."""
        num_rows = int((iterations * self.period)[pieces.start : pieces.stop].sum())
        values, labels, end = np.empty((num_rows, first.shape[1]), np.int32), np.empty(num_rows, np.int64), 0
        for piece in pieces:
            shape = int(iterations[piece]), int(self.period[piece])
            rows = slice(self.first[piece], self.first[piece] + shape[1])
            start, end = end, end + shape[0] * shape[1]
            block = values[start:end].reshape(*shape, -1)
            np.multiply(np.arange(shape[0], dtype=np.int32)[:, None, None], step[rows], out=block)
            block += first[rows]
            labels[start:end].reshape(shape)[:] = self.labels[rows]
        return NumberTable(values, labels)


def _starts(lengths: np.ndarray) -> np.ndarray:
    """Returns the beginnings of consecutive pieces of these lengths, and the end of the last piece."""
    starts = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=starts[1:])
    return starts


def continued(members: Sequence[Sequence[NumberTable]], apart: int = 1) -> Continued:
    """Continues the tables of the members k = 0, `apart`, 2 `apart`, ..., at least two, to all k.

    Raises NotAffineError with the number of the first table that does not continue.
    """
    sheets: list[NumberTable] = []
    known: dict[tuple[int, ...], int] = {}  # many tables are the same
    numbers = []
    for number, tables in enumerate(zip(*members, strict=True)):
        key = tuple(map(id, tables))
        if key not in known:
            known[key] = len(known)
            if len({table.values.shape[1] for table in tables}) > 1:
                raise NotAffineError("it has more columns", number)
            sheets += _sheets(tables, number, apart)
        numbers.append(known[key])
    result = Continued(sheets, numbers)
    for position, member in enumerate(members):
        result.check(position * apart, member)
    return result


class ContinuedTwice:
    """Tables as functions of k and of n, the number of sequences beyond the fewest.

    `sheets`: the tables that say tables for all k, continued in n. `numbers`: see `Continued`.
    """

    def __init__(self, members: Sequence[Continued]) -> None:
        """`members`: the tables for n = 0, 1, ..., at least two. Raises NotAffineError."""
        tables = list(zip(*(member.numbers for member in members), strict=True))
        number = {table: position for position, table in enumerate(dict.fromkeys(tables))}
        self.numbers = [number[table] for table in tables]
        sheets = [
            [member.tables[2 * table[position] + half] for table in number for half in (0, 1)]
            for position, member in enumerate(members)
        ]
        try:
            self.sheets = continued(sheets)
        except NotAffineError as error:
            raise NotAffineError(f"{error} in sequences", self.numbers.index(error.table // 2)) from error

    def at(self, n: int) -> Continued:
        """Returns the tables for so many sequences as functions of k."""
        return Continued(self.sheets.at(n), self.numbers)


def _sheets(tables: Sequence[NumberTable], number: int, apart: int) -> tuple[NumberTable, NumberTable]:
    """Returns the pieces of one table and their rows, as suggested by its first two members; see `Continued`."""
    short, long = tables[:2]
    pieces: list[tuple[int, int, int]] = []
    labels = [np.zeros(0, np.int64)]
    rows = [np.zeros((0, 3 * short.values.shape[1]), np.int64)]

    def add(at: int, at_long: int, period: int, iterations: int = 0) -> None:
        """Add the piece from `at` and `at_long` on: fixed, or with `apart` more iterations in the long table."""
        if not period:
            return
        base, base_long = short.values[at : at + period], long.values[at_long : at_long + period]
        step = long.values[at_long + period : at_long + 2 * period] - base_long if iterations else np.zeros_like(base)
        slope, rest = np.divmod(base_long - base, apart)
        if rest.any():
            raise NotAffineError("it does not go on by integers", number)
        pieces.append((period, iterations or 1, int(iterations > 0)))
        labels.append(2 * short.labels[at : at + period])
        labels[-1][0] += 1
        rows.append(np.concatenate([base, slope, step], axis=1))

    at = at_long = 0
    for end, period in _growths(short, long, number, apart):
        more = at_long - at  # entries that the long table has had in addition so far
        first, last = _regular(long, at_long, end + more + apart * period, period)
        iterations = (last - first) // period - apart
        if iterations < 1:
            raise NotAffineError("it is too short", number)
        add(at, at_long, first - at_long)
        add(first - more, first, period, iterations)
        at, at_long = last - more - apart * period, last
    rest = len(short.labels) - at
    if rest != len(long.labels) - at_long:
        raise NotAffineError("it does not go on alike", number)
    add(at, at_long, rest)
    shapes = np.array(pieces, dtype=np.int64).reshape(-1, 3)
    return (
        NumberTable(shapes, shapes[:, 2], by_change=True),
        NumberTable(np.concatenate(rows), np.concatenate(labels), by_change=short.by_change),
    )


def _growths(few: NumberTable, more: NumberTable, number: int, apart: int) -> Iterator[tuple[int, int]]:
    """Yields the positions in the short table where the long one has more rows, and the rows of a period.

    The additional rows are `apart` periods, which repeat the rows before them.
    """
    if len(few.labels) == len(more.labels):
        return
    at, at_long = 0, 0
    short, long = np.append(few.tokens, _END), np.append(more.tokens, _END)
    while len(long) - at_long > len(short) - at:
        rest = min(len(short) - at, len(long) - at_long)
        differs = np.flatnonzero(short[at : at + rest] != long[at_long : at_long + rest])
        same = int(differs[0]) if len(differs) else rest
        at, at_long = at + same, at_long + same
        period = _inserted(short, long, at, at_long, apart)
        if not period:
            raise NotAffineError("it does not repeat alike", number)
        yield at, period
        at_long += apart * period


def _inserted(short: np.ndarray, long: np.ndarray, at: int, at_long: int, apart: int) -> int:
    """Returns the entries of each of the `apart` additional periods of the long sequence here; 0 if it cannot be said.

    Most entries behind them must agree, in _LOOK_AHEAD entries, with further additional entries allowed among them.
    """
    most = min((len(long) - at_long - (len(short) - at)) // apart, at_long)
    found, best = 0, 0
    for period in range(1, most + 1):
        end = at_long + apart * period
        if not np.array_equal(long[at_long:end], long[at_long - period : end - period]):
            continue
        after = short[at : at + _LOOK_AHEAD]
        agrees = long[end : end + len(after)] == after
        num_equal = len(after) if agrees.all() else int(np.argmin(agrees))
        if num_equal > best:
            found, best = period, num_equal
        if num_equal == len(after):
            break
    return found


def _regular(table: NumberTable, start: int, end: int, period: int) -> tuple[int, int]:
    """Returns the longest part [first, last) of the iterations ending at `end` in which all change alike."""
    if table.is_even:
        start = max(start, int(table.tokens[-1]))
        return start + (end - start) % period, end
    differs = np.flatnonzero(table.tokens[start + period : end] != table.tokens[start : end - period])
    start = start + int(differs[-1]) + 1 if len(differs) else start
    start += (end - start) % period
    change = np.diff(table.values[start:end].reshape(-1, period, table.values.shape[1]), axis=0)
    differs = np.flatnonzero((change[1:] != change[:-1]).any(axis=(1, 2))) + 1
    edges = np.concatenate([[0], differs, [len(change)]])
    longest = len(edges) - 2 - int(np.argmax(np.diff(edges)[::-1]))
    return start + int(edges[longest]) * period, start + (int(edges[longest + 1]) + 1) * period
