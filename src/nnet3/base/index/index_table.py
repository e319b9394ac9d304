"""Index tables: the sequence n, the time t and the extra index x of each row of a matrix.

An Index is a triple (n, t, x). A table of Indexes is a plain NumPy int32 array of shape (rows, 3), so that a
minibatch of a million Indexes costs a few array operations and no Python objects. Row i of the table says
what row i of a matrix means.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from nnet3.errors import RequestError

N, T, X = 0, 1, 2
"""The columns of an index table."""

NO_TIME = -(2**31)
"""The t of a padding row: a row of a matrix that stands for no time at all."""

IndexTable = npt.NDArray[np.int32]
"""Shape (rows, 3), columns n, t, x."""

Integer = TypeVar("Integer", bound=np.integer)

_COLUMN_OF_LETTER = {"n": N, "t": T, "x": X}
_INT32 = np.iinfo(np.int32)
_CELLS_PER_ROW = 4  # of a table that is looked up by key: with more, sorting is faster


def as_index_table(indexes: Any, where: str = "indexes") -> IndexTable:
    """Returns the index table of a list of tuples or an array.

    `indexes` has shape (rows, 3) with columns n, t, x, or (rows, 2) with columns n, t (x is then 0). An int32 table
    comes back uncopied. Raises RequestError, whose message begins with `where`, for any other shape, for
    numbers that are not integers, and for integers beyond int32.
    """
    try:
        given = np.asarray(indexes)
    except (TypeError, ValueError, RuntimeError) as error:
        raise RequestError(f"{where}: expected rows (n, t) or rows (n, t, x), all of one length") from error
    if given.shape in ((0,), (0, 2), (0, 3)):
        return np.zeros((0, 3), dtype=np.int32)
    if given.ndim != 2 or given.shape[1] not in (2, 3):
        raise RequestError(f"{where}: expected shape (rows, 2) or (rows, 3) with columns n, t, x, got {given.shape}")
    if given.dtype.kind not in "iu":
        raise RequestError(f"{where}: expected integers that fit in int32, got an array of {given.dtype}")
    if given.dtype != np.int32 and (given.min() < _INT32.min or given.max() > _INT32.max):
        raise RequestError(
            f"{where}: expected integers from {_INT32.min} to {_INT32.max}, got {given.min()} to {given.max()}"
        )
    if given.shape[1] == 3:
        return np.ascontiguousarray(given, dtype=np.int32)
    table = np.zeros((len(given), 3), dtype=np.int32)
    table[:, :2] = given
    return table


def indexes_at(times: npt.ArrayLike) -> IndexTable:
    """Returns the indexes (0, t, 0) for some times (rows,)."""
    given = np.asarray(times)
    table = np.zeros((len(given), 3), np.int32)
    table[:, T] = given
    return table


def shift_indexes(table: IndexTable, t_offset: int, x_offset: int = 0) -> IndexTable:
    """Returns the table with these numbers added to t and x. Raises RequestError where a sum does not fit in int32."""
    shifted = table.copy()
    for column, offset in ((T, t_offset), (X, x_offset)):
        if not offset or not len(table):
            continue
        least, most = int(table[:, column].min()) + offset, int(table[:, column].max()) + offset
        if least <= _INT32.min or most > _INT32.max:
            wrong = least if least <= _INT32.min else most
            letter = "tx"[column == X]
            raise RequestError(f"index out of range: {letter} = {wrong - offset} with an offset of {offset} is {wrong}")
        shifted[:, column] += offset
    return shifted


def pack_keys(table: IndexTable, order: str = "txn") -> npt.NDArray[np.int64]:
    """Returns an integer for each row, (rows,): equal for equal rows, less for a row that sorts earlier.

    `order` names the columns from the most to the least significant column. Keys of two tables can be compared only if
    the tables were packed together, as one table.
    """
    return _pack(table, order)[0]


def _pack(table: IndexTable, order: str) -> tuple[npt.NDArray[np.int64], int]:
    """Returns keys of rows, >= 0, and a number above all of them."""
    columns = _columns(order)
    if len(table) == 0:
        return np.zeros(0, dtype=np.int64), 1
    keys, num_keys = np.zeros(len(table), dtype=np.int64), 1
    for column in columns:
        values = table[:, column]
        least = int(values.min())
        num_values = int(values.max()) - least + 1
        if num_values == 1:
            continue
        if num_keys * num_values > 2**63:
            # Three int32 do not fit in an int64, but ranks of keys (fewer than 2**31 of them) leave room for one.
            ranked, keys = np.unique(keys, return_inverse=True)
            num_keys = len(ranked)
        keys *= num_values
        keys += values
        keys -= least
        num_keys *= num_values
    return keys, num_keys


def sort_order(table: IndexTable, order: str = "txn") -> npt.NDArray[np.intp]:
    """Returns the permutation, (rows,), that sorts a table by indexing; equal rows keep their order.

    "txn" (by t, then x, then n) makes every time step of a minibatch a block of rows; "nxt" keeps sequences
    together. Any order of the three letters will do.
    """
    return np.argsort(pack_keys(table, order), kind="stable")


def unique_rows(table: IndexTable, order: str = "txn") -> tuple[IndexTable, npt.NDArray[np.intp]]:
    """Returns the distinct rows, sorted in `order`, and the position of each row of the table among them, (rows,).

    The first indexed with the second is the table again.
    """
    _, first, inverse = np.unique(pack_keys(table, order), return_index=True, return_inverse=True)
    return table[first], inverse


def has_duplicates(table: IndexTable) -> bool:
    """Returns true if two rows of the table are equal."""
    for first, second in ((N, T), (T, N)):  # most tables are in order
        keys = (table[:, first].astype(np.int64) << 32) + table[:, second]
        if (keys[1:] > keys[:-1]).all():
            return False
    keys = np.sort(pack_keys(table))
    return bool((keys[1:] == keys[:-1]).any())


def find_rows(table: IndexTable, queries: IndexTable) -> npt.NDArray[np.intp]:
    """Returns the number of the table's first row equal to each query, -1 for none, (queries,)."""
    keys, num_keys = _pack(np.concatenate([table, queries]), "txn")
    wanted = keys[len(table) :]
    if num_keys <= _CELLS_PER_ROW * len(keys):
        row_of_key = np.full(num_keys, -1, dtype=np.intp)
        row_of_key[keys[: len(table)][::-1]] = np.arange(len(table) - 1, -1, -1)  # the first of equal rows comes last
        return row_of_key[wanted]
    by_key = np.argsort(keys, kind="stable")  # of equal rows, those of the table come first
    starts_run = np.append(True, keys[by_key[1:]] != keys[by_key[:-1]])[: len(keys)]
    first_equal = np.empty(len(keys), dtype=np.intp)
    first_equal[by_key] = by_key[starts_run][np.cumsum(starts_run) - 1]
    row = first_equal[len(table) :]
    return np.where(row < len(table), row, -1)


def distinct(numbers: npt.NDArray[Integer]) -> npt.NDArray[Integer]:
    """Returns the distinct numbers of an array of any shape, ascending, (numbers,).

    `np.unique` gives the same, but looks numbers up in a hash table, ten times slower for many distinct numbers.
    """
    ordered = np.sort(numbers, axis=None)
    is_first = np.ones(len(ordered), dtype=bool)
    is_first[1:] = ordered[1:] != ordered[:-1]
    return ordered[is_first]


def _columns(order: str) -> list[int]:
    assert sorted(order) == ["n", "t", "x"], f"order must be a permutation of 'ntx', not {order!r}"
    return [_COLUMN_OF_LETTER[letter] for letter in order]
