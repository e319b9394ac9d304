"""Things in rows: boxes, the lanes of long arcs and the labels of arcs; and in which order they stand in a row."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable
from dataclasses import dataclass, field

_SWEEPS = 12


@dataclass(eq=False)
class Item:
    """Something that stands in a row. `x` is the centre of the part `width` wide; `margin` is room to the right.

    `is_between`: it is on the way of an arc. `pull` says how much that arc wants to be straight.
    """

    width: float = 0.0
    height: float = 0.0
    margin: float = 0.0
    pull: float = 1.0
    is_between: bool = False
    x: float = 0.0
    above: list[Item] = field(default_factory=list)
    below: list[Item] = field(default_factory=list)


def order_rows(rows: list[list[Item]]) -> None:
    """Put each row in an order in which few arcs cross: by the mean place of neighbours, up and down in turns."""
    best, fewest = [list(row) for row in rows], _crossings(rows)
    for sweep in range(_SWEEPS):
        if not fewest:
            break
        for row in rows[1:] if sweep % 2 == 0 else rows[-2::-1]:
            _sort_by_neighbours(row, up=sweep % 2 == 0)
        for row in rows:
            _swap_neighbours(row)
        crossings = _crossings(rows)
        if crossings < fewest:
            best, fewest = [list(row) for row in rows], crossings
    for row, order in zip(rows, best, strict=True):
        row[:] = order


def _number(row: Iterable[Item]) -> None:
    for position, item in enumerate(row):
        item.x = float(position)


def _sort_by_neighbours(row: list[Item], *, up: bool) -> None:
    """Order a row by the mean position of the neighbours above (or below); what has none stays where it is."""
    means = {id(item): _mean(item.above if up else item.below, item.x) for item in row}
    row.sort(key=lambda item: means[id(item)])
    _number(row)


def _mean(items: list[Item], default: float) -> float:
    return sum(item.x for item in items) / len(items) if items else default


def _swap_neighbours(row: list[Item]) -> None:
    for left in range(len(row) - 1):
        a, b = row[left], row[left + 1]
        as_is = _pair_crossings(a.above, b.above) + _pair_crossings(a.below, b.below)
        swapped = _pair_crossings(b.above, a.above) + _pair_crossings(b.below, a.below)
        if swapped < as_is:
            row[left], row[left + 1] = b, a
            a.x, b.x = b.x, a.x


def _pair_crossings(left: list[Item], right: list[Item]) -> int:
    return sum(a.x > b.x for a in left for b in right)


def _crossings(rows: list[list[Item]]) -> int:
    """Crossings between all pairs of neighbouring rows, by counting inversions."""
    for row in rows:
        _number(row)
    total = 0
    for row in rows[:-1]:
        seen: list[float] = []  # places of lower ends so far, in order
        for item in row:
            ends = sorted(after.x for after in item.below)
            total += sum(len(seen) - bisect_right(seen, end) for end in ends)
            for end in ends:
                insort(seen, end)
    return total
