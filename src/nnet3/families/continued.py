"""Continued tables: integers that a few small tables of one form have in common, for every size.

Three tables of 12, 14 and 16 rows, which say how the next ones go on:

    >>> import numpy as np
    >>> members = [[table_of(np.concatenate([np.arange(n), n + 5 + np.arange(n)]))] for n in (6, 7, 8)]
    >>> continued(members).at(3)[0].ravel()
    array([ 0,  1,  2,  3,  4,  5,  6,  7,  8, 14, 15, 16, 17, 18, 19, 20, 21,
           22])
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

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
    """Rows of integers, and of what kind each row is. `tokens` (rows,) decide where rows repeat."""

    values: np.ndarray  # (rows, columns) int64
    kinds: np.ndarray  # (rows,)
    tokens: np.ndarray  # (rows,)


def table_of(values: np.ndarray, kinds: np.ndarray | None = None) -> NumberTable:
    """Returns a table of row numbers or indexes, (rows,) or (rows, columns): what repeats is how they change.

    Each row is compared with the one before it that is of the same kind. Unless kinds are given, rows that stand for
    nothing (-1, or times that are none) are of a kind of their own.
    """
    rows = values.reshape(len(values), values[:1].size if len(values) else 1).astype(np.int64)
    if kinds is None:
        kinds = (rows < 0).all(axis=1).astype(np.int64) + 2 * (rows == NO_TIME).any(axis=1)
    by_kind = np.argsort(kinds, kind="stable")
    change = np.zeros_like(rows)
    change[by_kind[1:]] = np.diff(rows[by_kind], axis=0)
    first = by_kind[np.flatnonzero(np.diff(kinds[by_kind], prepend=-1))]
    change[first] = 0
    return NumberTable(rows, kinds, _numbered(np.concatenate([change, kinds[:, None]], axis=1)))


def _numbered(rows: np.ndarray) -> np.ndarray:
    """Returns a number for each row, equal for equal rows, in the order in which they come first."""
    number = np.zeros(len(rows), dtype=np.int64)
    for column in rows.T:
        number = np.unique(column, return_inverse=True)[1].reshape(-1) + len(rows) * number
        number = np.unique(number, return_inverse=True)[1].reshape(-1)
    first = np.unique(number, return_index=True)[1]
    return np.argsort(np.argsort(first))[number]


class Continued:
    """Tables as functions of k, the number of periods beyond the smallest member, joined to one.

    A table is made of pieces. Piece p repeats `period[p]` rows `turns[p] + k * more_turns[p]` times; its rows stand in
    `rows` from `first[p]` on. Row j of turn i is base[j] + k * slope[j] + i * (step[j] + k * twist[j]).
    """

    def __init__(self, pieces: Sequence[_Piece], starts: Sequence[int], num_columns: int) -> None:
        self.period = np.array([len(piece.kinds) for piece in pieces], dtype=np.int64)
        self.turns = np.array([piece.turns for piece in pieces], dtype=np.int64)
        self.more_turns = np.array([piece.more_turns for piece in pieces], dtype=np.int64)
        self.first = np.cumsum(self.period) - self.period
        self.row_kinds = np.concatenate([np.zeros(0, np.int64), *(piece.kinds for piece in pieces)])
        empty = np.zeros((4, 0, num_columns), np.int64)
        self.rows = np.concatenate([empty, *(_padded(piece.rows, num_columns) for piece in pieces)], axis=1)
        self.starts = list(starts)  # the first piece of each table, and at last the number of pieces

    def lengths(self, k: int) -> np.ndarray:
        """Returns the rows of each table, (tables,)."""
        ends = np.concatenate([[0], np.cumsum((self.turns + k * self.more_turns) * self.period)])
        return np.diff(ends[self.starts])

    def at(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns the values (rows, columns) and the kinds (rows,) of all tables, one after the other."""
        lengths = (self.turns + k * self.more_turns) * self.period
        piece = np.repeat(np.arange(len(lengths)), lengths)
        turn, row = np.divmod(np.arange(len(piece)) - (np.cumsum(lengths) - lengths)[piece], self.period[piece])
        row += self.first[piece]
        base, slope, step, twist = self.rows
        values = (base + k * slope)[row] + turn[:, None] * (step + k * twist)[row]
        return values, self.row_kinds[row]

    def check(self, k: int, tables: Sequence[NumberTable]) -> None:
        """Raise NotAffineError, with the number of the first of these tables that is not what `at(k)` gives."""
        values, kinds = self.at(k)
        ends = np.cumsum(self.lengths(k))
        for number, (table, end) in enumerate(zip(tables, ends.tolist(), strict=True)):
            part = slice(end - len(table.kinds), end)
            same_values = np.array_equal(values[part, : table.values.shape[1]], table.values)
            if not (same_values and np.array_equal(kinds[part], table.kinds)):
                raise NotAffineError("it is not affine", number)


@dataclass(frozen=True, eq=False)
class _Piece:
    """Rows that repeat; `rows` (4, period, columns) are base, slope, step and twist."""

    turns: int
    more_turns: int
    kinds: np.ndarray
    rows: np.ndarray


def _padded(rows: np.ndarray, num_columns: int) -> np.ndarray:
    return np.pad(rows, ((0, 0), (0, 0), (0, num_columns - rows.shape[2])))


def continued(members: Sequence[Sequence[NumberTable]]) -> Continued:
    """Returns the tables that continue those of the members k = 0, 1, ..., of which there are at least two.

    Raises NotAffineError, whose number is that of the first table that does not go on.
    """
    columns = max((table.values.shape[1] for table in members[0]), default=1)
    pieces: list[_Piece] = []
    starts = [0]
    known: dict[tuple[int, ...], list[_Piece]] = {}  # many tables are the same
    for number, tables in enumerate(zip(*members, strict=True)):
        key = tuple(map(id, tables))
        if key not in known:
            known[key] = _pieces(tables, number)
        pieces += known[key]
        starts.append(len(pieces))
    result = Continued(pieces, starts, columns)
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
