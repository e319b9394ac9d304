"""KernelOrders: the rows wanted by kernels with row rules, where sequences have several lengths.

A convolution over time wants its rows on a grid: times by sequences, with padding for missing rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from nnet3.base.index import NO_TIME, IndexTable, N, T, X, distinct, find_rows
from nnet3.engine.families.precomputed import Entry, KernelRules
from nnet3.engine.families.ragged_program import RaggedProgram
from nnet3.engine.families.ragged_regions import RaggedEntry, SideRows, UnlikeOperand
from nnet3.engine.families.ragged_rows import NotRaggedError
from nnet3.engine.ir.program_tables import KernelRows
from nnet3.engine.lowering.source import PADDING


class WantedRows(NamedTuple):
    """The rows wanted by a kernel: positions among the rows of all sequences, -1 for padding.

    `full`: the indexes; those of padding may be the indexes of the rows in whose place the padding is.
    """

    full: IndexTable
    rows: np.ndarray

    @property
    def indexes(self) -> IndexTable:
        """The indexes, with padding."""
        result = self.full.copy()
        result[self.rows < 0, T] = NO_TIME
        return result


class RowOrder(NamedTuple):
    """The rows that a kernel wants, and the index tables from existing rows to wanted rows and back."""

    wanted: WantedRows
    to_wanted: int
    to_existing: int


class FullOrder(NamedTuple):
    """The rows of a kernel with an order of its own, where all sequences are as long as the longest.

    `sides`: inputs and outputs. `first`: the number of the first row of each image (n, x) of the outputs, among all
    indexes. `entry`: what the kernel precomputes of the rows.
    """

    sides: tuple[WantedRows, WantedRows]
    first: np.ndarray
    entry: Mapping[str, np.ndarray]


@dataclass(eq=False)
class KernelOrders:
    """The orders of rows in a ragged program for given lengths; index tables for them are added to `tables`.

    `exists` and `count`: of all indexes; `numbers`: what n becomes; `fewest`: by how much the longest sequence is
    shorter.
    """

    ragged: RaggedProgram
    exists: np.ndarray
    count: np.ndarray
    numbers: np.ndarray
    fewest: int
    rules: KernelRules | None

    def __post_init__(self) -> None:
        self.wanted: dict[int, tuple[WantedRows, WantedRows]] = {}  # by entry, as inputs and outputs
        self.tables: list[np.ndarray] = []
        self._orders: dict[tuple[int, int, bytes], tuple[int, int, bool] | None] = {}
        self._equal: dict[tuple[int, int], np.ndarray] = {}  # positions of rows, see `_of_equal`
        key = self.fewest, len(self.numbers)
        self._full_orders: dict[int, FullOrder | None] = self.ragged.full_orders.get_or_make(key, dict)

    def precomputed(self, number: int) -> Entry:
        """Returns a precomputed entry for the existing rows, in the kernel's order."""
        entry = self.ragged.entries[number]
        assert self.rules is not None
        if entry is None:
            return None
        sides = entry.inputs, entry.outputs
        if entry.orders_rows:
            if number not in self._full_orders:
                self._full_orders[number] = self._full_order(entry)
            full_order = self._full_orders[number]
            if full_order is not None and self.exists[full_order.first].all():
                # All sequences at all times: so are some, with padding in the place of the others.
                wanted = [self._padded(side, rows.start) for side, rows in zip(full_order.sides, sides, strict=True)]
                self.wanted[number] = wanted[0], wanted[1]
                made, padded = full_order.entry, dict(zip(PADDING, wanted, strict=True))
                return {name: np.flatnonzero(padded[name].rows < 0) if name in padded else made[name] for name in made}
        wanted = [self._existing(rows) for rows in sides]
        if not len(wanted[1].rows):
            return None
        if entry.orders_rows:
            arranged = self.rules.arrange(entry.node, wanted[0].full, wanted[1].full)
            wanted = list(map(_arranged, wanted, arranged))
            self.wanted[number] = wanted[0], wanted[1]
        inputs, outputs = (self.renumbered(each.full) for each in wanted)
        return self.rules.precompute(KernelRows(entry.node, entry.runs_backward, inputs, outputs))

    def _full_order(self, entry: RaggedEntry) -> FullOrder | None:
        """Returns the rows of a kernel with an order of its own; None for one without, or that takes no padding."""
        assert self.rules is not None
        given = [self._of_equal(rows) for rows in (entry.inputs, entry.outputs)]
        arranged = self.rules.arrange(entry.node, given[0].full, given[1].full)
        if not len(arranged[1]) or arranged[1] is given[1].full:
            return None
        made = self.rules.precompute(KernelRows(entry.node, entry.runs_backward, *arranged))
        if made is None or made.keys().isdisjoint(PADDING):
            return None
        t, x = given[1].full[:, T], given[1].full[:, X]
        number = (xs := distinct(x)).searchsorted(x)
        begins = np.full(len(xs), np.iinfo(t.dtype).max, t.dtype)
        np.minimum.at(begins, number, t)
        first = given[1].rows[t == begins[number]]
        inputs, outputs = map(_arranged, given, arranged)
        return FullOrder((inputs, outputs), entry.outputs.start + first, made)

    def _existing(self, rows: SideRows) -> WantedRows:
        """Returns the existing rows; all rows without samples exist."""
        kept = np.arange(len(rows.indexes))
        kept = kept[self.exists[rows.start + kept]] if rows.start >= 0 else kept
        return WantedRows(rows.indexes[kept], kept)

    def _of_equal(self, rows: SideRows) -> WantedRows:
        """Returns the rows of the remaining sequences, if all were as long as the longest."""
        key = rows.start, rows.start + len(rows.indexes)
        if key not in self._equal:
            is_left = self.ragged.rows.n[slice(*key)] < len(self.numbers)
            self._equal[key] = np.flatnonzero(is_left & (self.ragged.rows.before_end[slice(*key)] >= self.fewest))
        return WantedRows(rows.indexes[self._equal[key]], self._equal[key])

    def _padded(self, side: WantedRows, start: int) -> WantedRows:
        """Returns the rows with padding for missing rows."""
        return side._replace(rows=np.where(self.exists[start + side.rows] & (side.rows >= 0), side.rows, -1))

    def order(self, region: int, wanted: WantedRows, *, is_read: bool) -> RowOrder | None:
        """Returns the order that brings the rows of a region into a kernel's order; None for rows already in order."""
        regions = self.ragged.regions
        first, end = int(regions.first[region]), int(regions.last[region])
        if first == end:  # no samples
            return None
        key = first, end, wanted.rows.tobytes()
        if key not in self._orders:
            is_wanted = wanted.rows >= 0
            number = np.where(self.exists[first:end], self.count[first:end] - self.count[first], -1)
            to_wanted = np.where(is_wanted, number[wanted.rows], -1)
            to_existing = np.full(end - first, -1)
            to_existing[wanted.rows[is_wanted]] = np.flatnonzero(is_wanted)
            to_existing = to_existing[number >= 0]
            self._orders[key] = None
            if not all(np.array_equal(rows, np.arange(len(rows))) for rows in (to_wanted, to_existing)):
                index = len(self.ragged.full.index_tables) + len(self.tables)
                self.tables += [to_wanted.astype(np.int32), to_existing.astype(np.int32)]
                self._orders[key] = index, index + 1, bool((to_wanted[is_wanted] < 0).any())
        order = self._orders[key]
        if is_read and order is not None and order[2]:
            raise NotRaggedError("a kernel has rows whose operands have no position")
        return None if order is None else RowOrder(wanted, *order[:2])

    def renumbered(self, indexes: IndexTable) -> IndexTable:
        """Returns indexes (rows, 3) with `numbers[n]` in the place of n."""
        result = indexes.copy()
        result[:, N] = self.numbers[indexes[:, N]]
        return result

    def rows_of_output(self, unlike: UnlikeOperand) -> WantedRows:
        """Returns the rows of an operand shared with the output of its kernel."""
        both = slice(unlike.output, unlike.output + unlike.num_rows)
        rows = np.flatnonzero(self.exists[both])
        indexes = np.zeros((len(rows), 3), np.int32)
        indexes[:, N] = self.ragged.rows.n[both][rows]
        indexes[:, T] = NO_TIME
        return WantedRows(indexes, rows)


def _arranged(existing: WantedRows, indexes: IndexTable) -> WantedRows:
    """Returns rows in the order of `indexes`, which may have padding."""
    if np.array_equal(existing.full, indexes):
        return existing
    found = find_rows(existing.full, indexes)
    return WantedRows(indexes, np.where(found >= 0, existing.rows[found], -1))
