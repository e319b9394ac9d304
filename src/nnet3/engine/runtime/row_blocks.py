"""Regular patterns in lists of row addresses, which strided views can copy without an index.

Addresses are element numbers in a block of memory. Joining rows of several sub-matrices, picking each third frame, or
turning frames-within-sequence into sequence-within-frames all come out as a few blocks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

_HASH_FACTOR = 1_000_003

#: By how much a row lies further from program to program of a family, where all are planned at once
#: (`nnet3.engine.runtime.member_planner`); other rows are far below.
STEP = 1 << 34

# When views beat an index, from timings on a CPU: one more view costs about as much as 16 more rows by index, one
# group by index (three calls) as much as 8 views.
VIEWS_PER_GROUP = 8
ROWS_PER_VIEW = 16


@dataclass(frozen=True)
class RowBlocks:
    """Block b is the rows start[b] + i * outer_stride[b] + j * inner_stride[b], i < outer[b], j < inner[b].

    start, outer_stride and inner_stride are (blocks, lists), one column for each address list; the block's rows follow
    each other in the lists, i counting slowly. The blocks are in the lists' order and cover them. For example, the
    list 0, 10, 20, 5, 15, 25, 99 is two blocks: start 0, outer 2 by 5, inner 3 by 10; and the single row 99.
    """

    start: np.ndarray
    outer: np.ndarray
    outer_stride: np.ndarray
    inner: np.ndarray
    inner_stride: np.ndarray

    def __len__(self) -> int:
        return len(self.outer)

    @property
    def first_rows(self) -> np.ndarray:
        """The position in the lists of each block's first row, (blocks,)."""
        rows = self.outer * self.inner
        return np.asarray(np.cumsum(rows) - rows)


def find_blocks(addresses: np.ndarray, memory: np.ndarray | None = None) -> RowBlocks:
    """Split address lists, (rows, lists), into blocks that are regular in all lists at once.

    With `memory`, of equal shape, all rows of a block lie in one memory.
    """
    memory = addresses[:, :0] if memory is None else memory
    first, inner, inner_stride = _runs(addresses, (memory[1:] == memory[:-1]).all(axis=1))
    heads, memory = addresses[first], memory[first]
    first_run, outer, outer_stride = _runs(heads, (inner[1:] == inner[:-1]) & (memory[1:] == memory[:-1]).all(axis=1))
    return RowBlocks(heads[first_run], outer, outer_stride, inner[first_run], inner_stride[first_run])


def fewest_blocks(addresses: np.ndarray, memory: np.ndarray | None = None) -> tuple[np.ndarray, RowBlocks]:
    """Returns an order of the rows, and the blocks of the rows in this order: as given, or sorted by the last list.

    Sorting must make blocks less than half as many: rows as given may be consecutive in the first list.
    """
    memory = np.zeros_like(addresses) if memory is None else memory
    order, blocks = np.arange(len(addresses)), find_blocks(addresses, memory)
    if len(blocks) > 2:
        by_last = np.lexsort((addresses[:, -1], memory[:, -1]))
        fewer = find_blocks(addresses[by_last], memory[by_last])
        if 2 * len(fewer) <= len(blocks):
            return by_last, fewer
    return order, blocks


def find_runs(addresses: np.ndarray, may_join: np.ndarray) -> RowBlocks:
    """Does the same with one level only; rows r and r + 1 are kept apart where may_join[r] is false."""
    first, inner, inner_stride = _runs(addresses, may_join)
    return RowBlocks(addresses[first], np.ones_like(inner), np.zeros_like(inner_stride), inner, inner_stride)


def range_runs(positions: np.ndarray, ranges: np.ndarray) -> tuple[np.ndarray, RowBlocks]:
    """Returns position, first row and length of the ranges (first, end) that have rows, and runs of equal length."""
    rows = np.column_stack([positions, ranges[:, 0], ranges[:, 1] - ranges[:, 0]])
    rows = rows[rows[:, 2] > 0]
    return rows, find_runs((rows[:, :2] + STEP // 2) % STEP - STEP // 2, rows[1:, 2] == rows[:-1, 2])


def _runs(columns: np.ndarray, may_join: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns first row, length and stride of the maximal runs with the most frequent stride, (lists,).

    Strides that go back are not used, since tensors have none below 0. A run of one row has stride 0.
    """
    rows, num_lists = columns.shape
    if rows == 0:
        empty = np.zeros(0, dtype=np.int64)
        return empty, empty, np.zeros((0, num_lists), dtype=np.int64)
    strides = np.diff(columns, axis=0)
    candidates = may_join & (strides >= 0).all(axis=1)
    goes_on = candidates & (strides == _most_frequent(strides[candidates])).all(axis=1)
    first = np.concatenate([[0], np.flatnonzero(~goes_on) + 1])
    length = np.diff(np.append(first, rows))
    stride = np.append(strides, np.zeros((1, num_lists), dtype=np.int64), axis=0)[first]
    stride[length == 1] = 0
    return first, length, stride


def _most_frequent(strides: np.ndarray) -> np.ndarray:
    """Returns the most frequent row of `strides`; zeros if there is none."""
    if len(strides) == 0:
        return np.zeros(strides.shape[1], dtype=np.int64)
    keys = strides[:, 0].copy()
    for column in strides.T[1:]:
        keys = keys * _HASH_FACTOR + column
    _, position, count = np.unique(keys, return_index=True, return_counts=True)
    return strides[position[np.argmax(count)]]


@dataclass(frozen=True, eq=False)
class RowPattern:
    """Moves from rows of one matrix to rows of another: dest_row[i] from source_row[i], no dest row twice.

    `blocks` counts rows and is None where views would be too many; `is_slice`: the dest rows are consecutive.
    """

    dest_row: np.ndarray
    source_row: np.ndarray
    blocks: RowBlocks | None
    is_slice: bool


def row_pattern(dest_row: np.ndarray, source_row: np.ndarray) -> RowPattern:
    """Finds what is regular in pairs of rows."""
    order, blocks = fewest_blocks(np.stack([dest_row, source_row], axis=1))
    if len(blocks) > VIEWS_PER_GROUP + len(dest_row) // ROWS_PER_VIEW:
        return RowPattern(dest_row, source_row, None, goes_up_by_one(dest_row))
    return RowPattern(dest_row[order], source_row[order], blocks, goes_up_by_one(dest_row[order]))


def goes_up_by_one(rows: np.ndarray) -> bool:
    return len(rows) > 0 and bool((np.diff(rows) % STEP == 1).all())
