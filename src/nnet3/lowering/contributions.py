"""Who writes a derivative first: it overwrites, and all that come after add.

The derivative of a node's value is the sum of what its users send back. The backward pass runs through the steps in
reverse, so of the users of one row the last step comes first. For every row and range of columns the first contribution
is found by arrays over rows; rows that nobody writes first have to be set to zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from nnet3.index import distinct
from nnet3.lowering.places import Place
from nnet3.lowering.schedule import Schedule

_MOST_TERMS = 1 << 24  # contributions of one step: more than there can be


@dataclass(frozen=True, eq=False)
class Contribution:
    """What rows of a user send to rows of a node. `can_overwrite` (rows,): not those whose command can only add."""

    node: int
    rows: np.ndarray  # of the node's place, >= 0
    key: np.ndarray  # (rows,): the higher, the earlier in the backward pass
    can_overwrite: np.ndarray
    step_first: np.ndarray | None  # where the rows of each step begin, if a step overwrites all of them or none


@dataclass(eq=False)
class Derivatives:
    """All contributions, collected with `add`, and then what `settle` finds.

    `overwrites(number)` (rows,) says it of each row of a contribution; `uncovered[root]` (rows, segments) are the
    cells that nobody overwrites; `first_write[root]` (rows,) the position of the first step that writes to a row.
    `unread[root]` (rows,), where there are any: rows that nobody reads. Nothing need be done to those that nobody
    writes either.
    """

    schedule: Schedule
    places: list[Place]
    unread: Mapping[int, np.ndarray] = field(default_factory=dict)
    contributions: list[Contribution] = field(default_factory=list)
    segments: dict[int, np.ndarray] = field(default_factory=dict)  # where the columns of a root are cut, with both ends
    uncovered: dict[int, np.ndarray] = field(default_factory=dict)
    first_write: dict[int, np.ndarray] = field(default_factory=dict)
    _overwrites: list[np.ndarray] = field(default_factory=list)

    def add(
        self,
        node: int,
        rows: np.ndarray,
        positions: np.ndarray,
        term: int,
        can_overwrite: np.ndarray | bool = True,
        step_first: np.ndarray | None = None,
    ) -> int:
        """Rows of a node get a contribution from steps at these positions; of one step, lower terms come first."""
        key = np.broadcast_to(positions.astype(np.int64) * _MOST_TERMS + (_MOST_TERMS - 1 - term), rows.shape)
        may = np.broadcast_to(np.asarray(can_overwrite), rows.shape)
        self.contributions.append(Contribution(node, rows.astype(np.int64), key, may, step_first))
        return len(self.contributions) - 1

    def overwrites(self, number: int) -> np.ndarray:
        return self._overwrites[number]

    def settle(self) -> None:
        """Find the first writers of all cells."""
        by_root: dict[int, list[int]] = {}
        for number, each in enumerate(self.contributions):
            by_root.setdefault(self.places[each.node].root, []).append(number)
        self._overwrites = [np.zeros(0, bool)] * len(self.contributions)
        for root, numbers in by_root.items():
            self._settle(root, numbers)

    def _settle(self, root: int, numbers: list[int]) -> None:
        ranges = [self._columns(self.contributions[number].node) for number in numbers]
        cuts = distinct(np.array([*ranges, (0, self.schedule.nodes[root].num_cols)]))
        self.segments[root] = cuts
        num_rows = self.schedule.num_rows(root)
        earliest = np.full((num_rows, len(cuts) - 1), -1, np.int64)
        spans = [np.searchsorted(cuts, each).tolist() for each in ranges]
        rows_of = []
        for number, (low, high) in zip(numbers, spans, strict=True):
            each = self.contributions[number]
            rows = each.rows + self.places[each.node].row_shift
            rows_of.append(rows)
            for segment in range(low, high):
                np.maximum.at(earliest[:, segment], rows, each.key)
        uncovered = np.ones(earliest.shape, bool)
        for number, rows, (low, high) in zip(numbers, rows_of, spans, strict=True):
            each = self.contributions[number]
            first = each.can_overwrite & (earliest[rows, low:high] == each.key[:, np.newaxis]).all(axis=1)
            if each.step_first is not None and len(first):
                whole = np.logical_and.reduceat(first, each.step_first)
                first = np.repeat(whole, np.diff(np.append(each.step_first, len(first))))
            self._overwrites[number] = first
            uncovered[rows[first], low:high] = False
        if root in self.unread:
            uncovered[self.unread[root]] &= earliest[self.unread[root]] >= 0
        self.uncovered[root] = uncovered
        self.first_write[root] = earliest.max(axis=1) // _MOST_TERMS

    def _columns(self, node: int) -> tuple[int, int]:
        offset = self.places[node].col_offset
        return offset, offset + self.schedule.nodes[node].num_cols
