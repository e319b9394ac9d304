"""First writers of derivatives: the first contribution overwrites, all later contributions add.

The derivative of a node's value is the sum of the users' contributions. The backward pass runs through the steps in
reverse, so of the users of one row the last step comes first. For every row and range of columns the first contribution
is found by arrays over rows; rows without a first writer have to be set to zero.

Of the five rows of x, step 5 sends to rows 0 and 1, step 3 to rows 0 to 3: step 5 overwrites two rows, step 3 adds to
rows 0 and 1 and overwrites rows 2 and 3, and row 4 is cleared.

>>> from tests.lowering.examples import splice
>>> found = Contributions(splice().schedule, [RowStorage(node) for node in range(4)])
>>> late = found.add(0, np.arange(2), np.array(5), term=0)
>>> early = found.add(0, np.arange(4), np.array(3), term=0)
>>> settled, overwrites = found.settle()
>>> overwrites[late].tolist(), overwrites[early].tolist()
([True, True], [False, False, True, True])
>>> settled[0].blocks_to_clear()
[Cells(first_row=4, num_rows=1, first_col=0, num_cols=2)]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from nnet3.base.index import distinct
from nnet3.engine.lowering.locations import RowStorage
from nnet3.engine.lowering.schedule import Schedule

_MOST_TERMS = 1 << 24  # contributions of one step: more than there can be


def _turns(positions: np.ndarray, term: int) -> np.ndarray:
    """Returns the turns of a contribution from steps at these positions: larger ones come earlier in the backward pass.

    Later steps come first, and within a step lower terms.
    """
    return positions.astype(np.int64) * _MOST_TERMS + (_MOST_TERMS - 1 - term)


class Cells(NamedTuple):
    """Rows and columns of a matrix."""

    first_row: int
    num_rows: int
    first_col: int
    num_cols: int


@dataclass(frozen=True, eq=False)
class Contribution:
    """Rows of a node to which a user sends. `can_overwrite` (rows,): False where its command can only add."""

    node: int
    rows: np.ndarray  # of the node's storage, >= 0
    turn: np.ndarray  # (rows,), see _turns
    can_overwrite: np.ndarray
    step_first: np.ndarray | None  # where the rows of each step begin, if a step overwrites all of them or none


@dataclass(frozen=True, eq=False)
class Settled:
    """The first writers of the derivative of a root.

    `segments`: the cuts between columns, with both ends. `uncovered` (rows, segments): the cells that nobody
    overwrites. `first_write` (rows,): the position of a row's first writing step.
    """

    segments: np.ndarray
    uncovered: np.ndarray
    first_write: np.ndarray

    def blocks_to_clear(self) -> list[Cells]:
        """Returns the cells that nobody overwrites, in blocks of rows."""
        cuts = self.segments.tolist()
        blocks = []
        for segment in range(self.uncovered.shape[1]):
            padded = np.concatenate([[0], self.uncovered[:, segment].astype(np.int8), [0]])
            edges = np.flatnonzero(np.diff(padded))
            for begin, end in zip(edges[0::2].tolist(), edges[1::2].tolist(), strict=True):
                blocks.append(Cells(begin, end - begin, cuts[segment], cuts[segment + 1] - cuts[segment]))
        return blocks


@dataclass(eq=False)
class Contributions:
    """All contributions, collected with `add`, until `settle` finds the first writers.

    `unread[root]` (rows,), where a root has unread rows: rows that nobody reads. Unread rows that nobody writes need
    not be cleared.
    """

    schedule: Schedule
    storage: Sequence[RowStorage]
    unread: Mapping[int, np.ndarray] = field(default_factory=dict)
    contributions: list[Contribution] = field(default_factory=list)

    def add(
        self,
        node: int,
        rows: np.ndarray,
        positions: np.ndarray,
        term: int,
        can_overwrite: np.ndarray | bool = True,
        step_first: np.ndarray | None = None,
    ) -> int:
        """Add a contribution to rows of a node from steps at these positions; returns its number."""
        turn = np.broadcast_to(_turns(positions, term), rows.shape)
        may = np.broadcast_to(np.asarray(can_overwrite), rows.shape)
        self.contributions.append(Contribution(node, rows.astype(np.int64), turn, may, step_first))
        return len(self.contributions) - 1

    def settle(self) -> tuple[dict[int, Settled], list[np.ndarray]]:
        """Returns the first writers by root, and for each contribution a mask of its overwriting rows, (rows,)."""
        by_root: dict[int, list[int]] = {}
        for number, each in enumerate(self.contributions):
            by_root.setdefault(self.storage[each.node].root, []).append(number)
        overwrites = [np.zeros(0, bool)] * len(self.contributions)
        settled = {root: self._settle(root, numbers, overwrites) for root, numbers in by_root.items()}
        return settled, overwrites

    def _settle(self, root: int, numbers: list[int], overwrites: list[np.ndarray]) -> Settled:
        ranges = [self._columns(self.contributions[number].node) for number in numbers]
        cuts = distinct(np.array([*ranges, (0, self.schedule.nodes[root].num_cols)]))
        earliest = np.full((self.schedule.num_rows(root), len(cuts) - 1), -1, np.int64)
        spans = [np.searchsorted(cuts, each).tolist() for each in ranges]
        rows_of = []
        for number, (low, high) in zip(numbers, spans, strict=True):
            each = self.contributions[number]
            rows = each.rows + self.storage[each.node].row_shift
            rows_of.append(rows)
            for segment in range(low, high):
                np.maximum.at(earliest[:, segment], rows, each.turn)
        uncovered = np.ones(earliest.shape, bool)
        for number, rows, (low, high) in zip(numbers, rows_of, spans, strict=True):
            each = self.contributions[number]
            first = each.can_overwrite & (earliest[rows, low:high] == each.turn[:, np.newaxis]).all(axis=1)
            if each.step_first is not None and len(first):
                whole = np.logical_and.reduceat(first, each.step_first)
                first = np.repeat(whole, np.diff(np.append(each.step_first, len(first))))
            overwrites[number] = first
            uncovered[rows[first], low:high] = False
        if root in self.unread:
            uncovered[self.unread[root]] &= earliest[self.unread[root]] >= 0
        return Settled(cuts, uncovered, earliest.max(axis=1) // _MOST_TERMS)

    def _columns(self, node: int) -> tuple[int, int]:
        offset = self.storage[node].col_offset
        return offset, offset + self.schedule.nodes[node].num_cols
