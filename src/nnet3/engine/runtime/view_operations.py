"""ViewOperations: operations of native code on the views of a plan, at any addresses and with any moves.

Calls are bound to stand-ins for views, each at a separate address. So the addresses in operations identify
the view of each matrix, or of some of its columns. The plan tells the address of the view in each iteration of a loop,
and the view's number of rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np

from nnet3.base.native.codes import Code
from nnet3.base.native.operations import (
    ADDRESSES,
    COUNTED,
    OF_ROW,
    OF_TURN,
    SCRATCH,
    SIZES,
    STAYS,
    STRIDES,
    TABLE,
    Operations,
)
from nnet3.base.native.ranges import NUM_SIZES, ROWS, forms_of
from nnet3.engine.runtime.view_tensors import StandIns, ViewAddresses

_WIDTH = STRIDES.stop  # of a row


class MovedOperations(NamedTuple):
    """Operations as operations.c takes them, and their moves."""

    rows: np.ndarray
    moves: np.ndarray


@dataclass(frozen=True, eq=False)
class ViewOperations:
    """Some operations, and the views among their matrices.

    `rows` (operations, numbers of an operation): addresses count from the beginning of a view, or from 0. `matrices`
    (views, 5) has a row for each matrix that is a view: operation, matrix, view; the size equal to the view's number of
    rows, 1 to 3, or 0 for none; and the number of rows.
    """

    rows: np.ndarray
    matrices: np.ndarray = field(default_factory=partial(np.zeros, (0, 5), np.int64))

    def bound_to(self, addresses: ViewAddresses) -> MovedOperations | None:
        """Returns the operations on views that lie there; None if rows differ that were equally many."""
        operation, matrix, view, size, num_rows = self.matrices.T
        address_at, size_at, move_at = self._places
        rows, moves = self.rows.copy(), np.empty((len(self.rows), len(STAYS)), np.int64)
        moves[:] = STAYS
        of_rows, of_moves = rows.reshape(-1), moves.reshape(-1)
        of_rows[address_at] += addresses.begin[view]
        table, now = addresses.table[view], addresses.num_rows[view]
        is_even, follows = table < 0, size > 0
        given = follows & is_even
        of_rows[size_at[given]] = now[given]
        if (is_even & (now != np.where(follows, of_rows[size_at], num_rows))).any():
            return None
        of_moves[move_at] = np.where(is_even, addresses.of_iteration[view], 0)
        if not is_even.all():
            moves[operation, matrix + OF_ROW.start] = np.where(is_even, 0, addresses.of_row[view])
            moves[operation, matrix + TABLE.start] = table
            moves[operation[follows & ~is_even], size[follows & ~is_even] + (COUNTED.start - 1)] = table[
                follows & ~is_even
            ]
            counted = np.where(follows, moves[operation, size + (COUNTED.start - 1)], -1)
            counts = [each[:, 1] for each in addresses.tables]
            for own, other, number in set(zip(table.tolist(), counted.tolist(), num_rows.tolist(), strict=True)):
                if own >= 0 and own != other and (counts[own] != (counts[other] if other >= 0 else number)).any():
                    return None
        return MovedOperations(rows, moves)

    @cached_property
    def _places(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Where the address and the size of each matrix stand among the numbers of `rows`, and its move among those of
        moves."""
        operation, matrix, _, size, _ = self.matrices.T
        begin = operation * _WIDTH
        return begin + matrix + ADDRESSES.start, begin + size, operation * len(STAYS) + matrix + OF_TURN.start

    def in_order(self, order: np.ndarray, scratch: np.ndarray) -> ViewOperations:
        """Returns the operations of these numbers, in order, with panels that begin there in scratch memory."""
        rows, place = self.rows[order], np.full(len(self.rows), -1)
        rows[:, SCRATCH], place[order] = scratch, np.arange(len(order))
        matrices = self.matrices.copy()
        matrices[:, 0] = place[matrices[:, 0]]
        return ViewOperations(rows, matrices[matrices[:, 0] >= 0])

    @cached_property
    def packed_views(self) -> set[int]:
        """The views whose weights are packed."""
        operation, matrix, view = self.matrices.T[:3]
        return set(view[(self.rows[operation, 0] == Code.PACK) & (matrix == 2)].tolist())

    def packs_constant(self, packed: np.ndarray, addresses: ViewAddresses) -> bool:
        """True if all weights packed by the `packed` operations are in constant views."""
        operation, matrix, view = self.matrices.T[:3]
        constant = set(operation[(matrix == 2) & addresses.is_constant[view]].tolist())
        return constant.issuperset(np.flatnonzero(packed).tolist())


def on_views(calls: Iterable[Operations | None], stand_ins: StandIns) -> Iterator[ViewOperations | None]:
    """Yields the operations of each call, made for stand-ins, on the views behind the stand-ins; None without."""
    found = list(calls)
    rows = np.array([row for each in found for row in each or ()], np.int64).reshape(-1, _WIDTH)
    views, offsets = stand_ins.views_at(rows[:, ADDRESSES])
    operation, matrix = np.nonzero(views >= 0)
    view, entry = views[operation, matrix], (operation, matrix + ADDRESSES.start)
    rows[entry] = offsets[operation, matrix]
    num_rows, of_row = stand_ins.num_rows[view], stand_ins.of_row[view]
    dimensions, strides = (each[operation, matrix] for each in forms_of(rows))
    is_for_all = stand_ins.is_constant[view] & (num_rows == 1) & (dimensions[:, 0] == ROWS)
    rows[operation[is_for_all], matrix[is_for_all] + STRIDES.start] = 0
    sizes = np.pad(rows[:, SIZES], ((0, 0), (1, NUM_SIZES - SIZES.stop)), constant_values=-1)
    are_rows = (sizes[operation[:, None], dimensions] == num_rows[:, None]) & (strides == of_row[:, None])
    are_rows &= ~is_for_all[:, None]
    size = np.where(are_rows[:, 0], dimensions[:, 0], np.where(are_rows[:, 1], dimensions[:, 1], 0))
    matrices = np.stack([operation, matrix, view, size, num_rows], axis=1)
    ends = list(accumulate((len(each or ()) for each in found), initial=0))
    cuts = np.searchsorted(operation, ends)
    for each, (start, end), own in zip(found, pairwise(ends), pairwise(cuts.tolist()), strict=True):
        some = matrices[slice(*own)] - np.array([start, 0, 0, 0, 0])
        yield None if each is None else ViewOperations(rows[start:end], some)


def joined(parts: Sequence[ViewOperations]) -> ViewOperations:
    """Returns the operations of all parts, in order."""
    before = accumulate((len(part.rows) for part in parts), initial=0)
    matrices = [part.matrices + np.array([start, 0, 0, 0, 0]) for part, start in zip(parts, before, strict=False)]
    return ViewOperations(np.concatenate([part.rows for part in parts]), np.concatenate(matrices))
