"""Continued tables: integers that a few small tables of one form have in common, for every size.

Two tables of 20 and 22 rows, which say how the next ones go on:

    >>> import numpy as np
    >>> members = [[table_of(np.concatenate([np.arange(n), n + 5 + np.arange(n)]))] for n in (10, 11)]
    >>> continued(members).at(2)[0].values.ravel().tolist()
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28]
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from nnet3.index import NO_TIME

_LOOK_AHEAD = 8  # entries that have to agree behind what comes in addition
_END = -1


class NotAffineError(Exception):
    """Tables do not continue each other; `table` is the number of the first of them."""

    def __init__(self, message: str, table: int = -1) -> None:
        super().__init__(message)
        self.table = table


@dataclass(frozen=True, eq=False)
class NumberTable:
    """Rows of integers, and of what kind each row is."""

    values: np.ndarray  # (rows, columns) int64
    kinds: np.ndarray  # (rows,)
    by_change: bool = False  # rows repeat if they change alike, and not if they are of one kind

    @cached_property
    def tokens(self) -> np.ndarray:
        """(rows,): equal for rows that may stand in one place of a period."""
        if not self.by_change:
            return self.kinds
        by_kind = np.argsort(self.kinds, kind="stable")
        change = np.zeros_like(self.values)
        change[by_kind[1:]] = np.diff(self.values[by_kind], axis=0)
        first = by_kind[np.flatnonzero(np.diff(self.kinds[by_kind], prepend=-1))]
        change[first] = 0
        return _numbered(np.concatenate([change, self.kinds[:, None]], axis=1))


def table_of(values: np.ndarray, kinds: np.ndarray | None = None) -> NumberTable:
    """Returns a table of row numbers or indexes, (rows,) or (rows, columns): what repeats is how they change.

    Each row is compared with the one before it that is of the same kind. Unless kinds are given, rows that stand for
    nothing (-1, or times that are none) are of a kind of their own.
    """
    rows = values.reshape(len(values), math.prod(values.shape[1:])).astype(np.int64)
    if kinds is None:
        kinds = (rows < 0).all(axis=1).astype(np.int64) + 2 * (rows == NO_TIME).any(axis=1)
    return NumberTable(rows, kinds, by_change=True)


def _numbered(rows: np.ndarray) -> np.ndarray:
    """Returns a number for each row, equal for equal rows, in the order in which they come first."""
    number = np.zeros(len(rows), dtype=np.int64)
    for column in rows.T:
        number = np.unique(column, return_inverse=True)[1].reshape(-1) + len(rows) * number
        number = np.unique(number, return_inverse=True)[1].reshape(-1)
    first = np.unique(number, return_index=True)[1]
    return np.argsort(np.argsort(first))[number]


class Continued:
    """Tables as functions of k, the number of periods beyond the smallest member; equal ones are made once.

    `tables`: the pieces of different tables, `number`: which of them each table is.
    """

    def __init__(self, tables: Sequence[Sequence[_Piece]], columns: Sequence[int], number: Sequence[int]) -> None:
        widths = np.array(columns, dtype=np.int64)
        groups = [np.flatnonzero(widths == width) for width in np.unique(widths)]
        self._groups = [_Joined([tables[each] for each in group.tolist()], int(widths[group[0]])) for group in groups]
        place = np.argsort(np.concatenate([np.zeros(0, np.int64), *groups]))
        self._place = place[np.array(number, dtype=np.int64)]

    def lengths(self, k: int) -> np.ndarray:
        """Returns the rows of each table, (tables,)."""
        return np.concatenate([np.zeros(0, np.int64), *(group.lengths(k) for group in self._groups)])[self._place]

    def at(self, k: int) -> list[NumberTable]:
        """Returns the tables. Equal ones may be one object."""
        found = [table for group in self._groups for table in group.at(k)]
        return [found[place] for place in self._place.tolist()]

    def check(self, k: int, tables: Sequence[NumberTable]) -> None:
        """Raise NotAffineError, with the number of one of these tables, if they are not what `at(k)` gives."""
        differs = np.flatnonzero(self.lengths(k) != [len(table.kinds) for table in tables])
        if len(differs):
            raise NotAffineError("it has another length", int(differs[0]))
        same: set[tuple[int, int]] = set()
        for number, (one, other) in enumerate(zip(self.at(k), tables, strict=True)):
            if (id(one), id(other)) in same:
                continue
            if not (np.array_equal(one.values, other.values) and np.array_equal(one.kinds, other.kinds)):
                raise NotAffineError("it is not affine", number)
            same.add((id(one), id(other)))


class _Joined:
    """Tables with equally many columns, joined to one.

    A table is made of pieces. Piece p repeats `period[p]` rows `turns[p] + k * more_turns[p]` times; its rows stand in
    `rows` from `first[p]` on. Row j of turn i is base[j] + k * slope[j] + i * (step[j] + k * twist[j]).
    """

    def __init__(self, tables: Sequence[Sequence[_Piece]], columns: int) -> None:
        pieces = [piece for table in tables for piece in table]
        self.period = np.array([len(piece.kinds) for piece in pieces], dtype=np.int64)
        self.turns = np.array([piece.turns for piece in pieces], dtype=np.int64)
        self.more_turns = np.array([piece.more_turns for piece in pieces], dtype=np.int64)
        self.first = np.cumsum(self.period) - self.period
        self.row_kinds = np.concatenate([np.zeros(0, np.int64), *(piece.kinds for piece in pieces)])
        self.rows = np.concatenate([np.empty((4, 0, columns), np.int64), *(piece.rows for piece in pieces)], axis=1)
        self.ends_of_pieces = np.cumsum([len(table) for table in tables])

    def _ends(self, k: int) -> np.ndarray:
        ends = np.cumsum((self.turns + k * self.more_turns) * self.period)
        return np.concatenate([[0], ends])[self.ends_of_pieces]

    def lengths(self, k: int) -> np.ndarray:
        return np.diff(self._ends(k), prepend=0)

    def at(self, k: int) -> list[NumberTable]:
        lengths = (self.turns + k * self.more_turns) * self.period
        piece = np.repeat(np.arange(len(lengths)), lengths)
        turn, row = np.divmod(np.arange(len(piece)) - (np.cumsum(lengths) - lengths)[piece], self.period[piece])
        row += self.first[piece]
        base, slope, step, twist = self.rows
        values = (step + k * twist)[row]
        values *= turn[:, None]
        values += (base + k * slope)[row]
        ends = self._ends(k)[:-1]
        return list(map(NumberTable, np.split(values, ends), np.split(self.row_kinds[row], ends)))


@dataclass(frozen=True, eq=False)
class _Piece:
    """Rows that repeat; `rows` (4, period, columns) are base, slope, step and twist."""

    turns: int
    more_turns: int
    kinds: np.ndarray
    rows: np.ndarray


def continued(members: Sequence[Sequence[NumberTable]]) -> Continued:
    """Returns the tables that continue those of the members k = 0, 1, ..., of which there are at least two.

    Raises NotAffineError, whose number is that of the first table that does not go on.
    """
    pieces: list[list[_Piece]] = []
    columns: list[int] = []
    known: dict[tuple[int, ...], int] = {}  # many tables are the same
    numbers = []
    for number, tables in enumerate(zip(*members, strict=True)):
        key = tuple(map(id, tables))
        if key not in known:
            known[key] = len(pieces)
            columns.append(tables[0].values.shape[1])
            if any(table.values.shape[1] != columns[-1] for table in tables):
                raise NotAffineError("it has more columns", number)
            pieces.append(_pieces(tables, number))
        numbers.append(known[key])
    result = Continued(pieces, columns, numbers)
    for k, member in enumerate(members):
        result.check(k, member)
    return result


def _pieces(tables: Sequence[NumberTable], number: int) -> list[_Piece]:
    """Returns the pieces of one table, as its first two members suggest them."""
    short, long = tables[:2]
    pieces: list[_Piece] = []
    at = at_long = 0
    for end, period in _growths(short.tokens, long.tokens, number):
        more = at_long - at  # entries that the long table has had in addition so far
        first, last = _regular(long, at_long, end + more + period, period)
        turns = (last - first) // period
        if turns < 2:
            raise NotAffineError("it is too short", number)
        pieces.append(_piece(short, long, at, at_long, first - at_long))
        pieces.append(_piece(short, long, first - more, first, period, turns - 1))
        at, at_long = last - more - period, last
    rest = len(short.kinds) - at
    if rest != len(long.kinds) - at_long:
        raise NotAffineError("it does not go on alike", number)
    return [piece for piece in (*pieces, _piece(short, long, at, at_long, rest)) if len(piece.kinds)]


def _piece(short: NumberTable, long: NumberTable, at: int, at_long: int, period: int, turns: int = 0) -> _Piece:
    """Returns the piece from `at` and `at_long` on: with one more turn in the long table, or fixed without turns."""
    base, base_long = short.values[at : at + period], long.values[at_long : at_long + period]
    step = twist = np.zeros_like(base)
    if turns:
        step_long = long.values[at_long + period : at_long + 2 * period] - base_long
        step = short.values[at + period : at + 2 * period] - base if turns > 1 else step_long
        twist = step_long - step
    rows = np.stack([base, base_long - base, step, twist])
    return _Piece(turns or 1, int(turns > 0), short.kinds[at : at + period], rows)


def _growths(short: np.ndarray, long: np.ndarray, number: int) -> Iterator[tuple[int, int]]:
    """Yields the ends, in the short sequence, of what repeats, and the lengths by which the long one has more there.

    What comes in addition repeats what stands before it.
    """
    at, at_long = 0, 0
    short, long = np.append(short, _END), np.append(long, _END)
    while len(long) - at_long > len(short) - at:
        rest = min(len(short) - at, len(long) - at_long)
        differs = np.flatnonzero(short[at : at + rest] != long[at_long : at_long + rest])
        same = int(differs[0]) if len(differs) else rest
        at, at_long = at + same, at_long + same
        period = _inserted(short, long, at, at_long)
        if not period:
            raise NotAffineError("it does not repeat alike", number)
        yield at, period
        at_long += period


def _inserted(short: np.ndarray, long: np.ndarray, at: int, at_long: int) -> int:
    """Returns how many entries of the long sequence come in addition here; 0 if that cannot be said."""
    most = min(len(long) - at_long - (len(short) - at), at_long)
    after = short[at : at + _LOOK_AHEAD]
    for period in range(1, most + 1):
        repeats = np.array_equal(long[at_long : at_long + period], long[at_long - period : at_long])
        if repeats and np.array_equal(long[at_long + period : at_long + period + len(after)], after):
            return period
    return 0


def _regular(table: NumberTable, start: int, end: int, period: int) -> tuple[int, int]:
    """Returns the longest part [first, last) of the turns that end at `end` in which all change alike."""
    differs = np.flatnonzero(table.tokens[start + period : end] != table.tokens[start : end - period])
    start = start + int(differs[-1]) + 1 if len(differs) else start
    start += (end - start) % period
    change = np.diff(table.values[start:end].reshape(-1, period, table.values.shape[1]), axis=0)
    differs = np.flatnonzero((change[1:] != change[:-1]).any(axis=(1, 2))) + 1
    edges = np.concatenate([[0], differs, [len(change)]])
    longest = len(edges) - 2 - int(np.argmax(np.diff(edges)[::-1]))
    return start + int(edges[longest]) * period, start + (int(edges[longest + 1]) + 1) * period
