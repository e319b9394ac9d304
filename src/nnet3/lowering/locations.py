"""Location lists: where the rows of a gathered node come from, split so that each list is one command.

A list holds for each row of the destination the row of a source that it takes, or -1 for none. Four rows, of which the
first two take rows 5, 6 of node 1 and the others row 0 of node 2 each:

>>> lists = split_locations(np.array([[1], [1], [2], [2]]), np.array([[5], [6], [0], [0]]))
>>> [(each.node, each.rows.tolist()) for each in lists]
[(1, [5, 6, -1, -1]), (2, [-1, -1, 0, 0])]
>>> as_block(lists[0].rows)
ShiftedBlock(dest=0, source=5, count=2)
>>> runs_of(lists[1].rows).tolist()  # row 0 of node 2 is taken by destination rows [2, 4)
[[2, 4]]
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nnet3.index import distinct


@dataclass(frozen=True, eq=False)
class LocationList:
    """Row numbers (rows,) in the matrix of one node; -1 for none."""

    node: int
    rows: np.ndarray

    @property
    def valid(self) -> np.ndarray:
        return self.rows >= 0


def split_locations(nodes: np.ndarray, rows: np.ndarray) -> list[LocationList]:
    """Splits slots (rows, slots) of source node and row, both -1 for none, into lists of one source each.

    Slots keep their own lists, so that a shifted copy stays a shifted copy; lists of one source that share no row
    are merged.
    """
    lists: list[LocationList] = []
    for slot in range(nodes.shape[1]):
        sources = distinct(nodes[:, slot])
        for source in sources[sources >= 0].tolist():
            here = np.where(nodes[:, slot] == source, rows[:, slot], -1)
            same = (i for i, known in enumerate(lists) if known.node == source)
            partner = next((i for i in same if not (lists[i].valid & (here >= 0)).any()), None)
            if partner is None:
                lists.append(LocationList(source, here))
            else:
                lists[partner] = LocationList(source, np.maximum(lists[partner].rows, here))
    return lists


def pack_locations(lists: list[LocationList]) -> list[tuple[np.ndarray, np.ndarray]] | None:
    """Packs the lists into fewer with several sources each, as (nodes, rows); returns None if that saves none."""
    if len(lists) < 2:
        return None
    nodes = np.stack([np.where(each.valid, each.node, -1) for each in lists], axis=1)
    rows = np.stack([each.rows for each in lists], axis=1)
    depth = int((nodes >= 0).sum(axis=1).max())
    if depth == len(lists):
        return None
    order = np.argsort(nodes < 0, axis=1, kind="stable")[:, :depth]
    nodes, rows = np.take_along_axis(nodes, order, axis=1), np.take_along_axis(rows, order, axis=1)
    return [(nodes[:, column], rows[:, column]) for column in range(depth)]


@dataclass(frozen=True)
class ShiftedBlock:
    """Destination rows [dest, dest + count) take source rows [source, source + count)."""

    dest: int
    source: int
    count: int


def as_block(rows: np.ndarray) -> ShiftedBlock | None:
    """Returns the list as one shifted block; None if it is not one."""
    valid = np.flatnonzero(rows >= 0)
    if valid.size == 0:
        return None
    first, count = int(valid[0]), len(valid)
    if valid[-1] - first + 1 != count:
        return None
    taken = rows[first : first + count]
    return ShiftedBlock(first, int(taken[0]), count) if (np.diff(taken) == 1).all() else None


def runs_of(rows: np.ndarray) -> np.ndarray | None:
    """Returns the range [first, end) of rows that take each source row from the smallest to the largest, (rows, 2).

    None if some source row is taken by rows that do not stand together.
    """
    starts = np.flatnonzero(np.concatenate([[True], rows[1:] != rows[:-1]]))
    ends = np.append(starts[1:], len(rows))
    keep = rows[starts] >= 0
    starts, ends = starts[keep], ends[keep]
    sources = rows[starts]
    if len(distinct(sources)) != len(sources):
        return None
    low, high = int(sources.min()), int(sources.max())
    ranges = np.zeros((high - low + 1, 2), np.int32)
    ranges[sources - low, 0], ranges[sources - low, 1] = starts, ends
    return ranges
