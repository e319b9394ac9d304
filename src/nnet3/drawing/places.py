"""Things in rows: boxes, the lanes of long arcs and the labels of arcs; their order in a row and where they stand."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

_SWEEPS = 12
_GAP = 26.0  # between neighbours
_LANE_GAP = 14.0


@dataclass(eq=False)
class Item:
    """Something that stands in a row. `x` is the centre of the part `width` wide; `margin` is room to the right."""

    width: float = 0.0
    height: float = 0.0
    margin: float = 0.0
    x: float = 0.0
    above: list[Item] = field(default_factory=list)
    below: list[Item] = field(default_factory=list)

    @property
    def is_lane(self) -> bool:
        return self.height == 0.0


def arrange(rows: list[list[Item]]) -> None:
    """Order each row so that few arcs cross, and set every `x`."""
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
    for row in rows:
        _spread(row, [0.0] * len(row))
    for sweep in range(2 * _SWEEPS):
        for row in rows[1:] if sweep % 2 == 0 else rows[-2::-1]:
            _spread(row, [_wanted_x(item, up=sweep % 2 == 0) for item in row])


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
        seen: list[float] = []
        for item in row:
            total += sum(before > after.x for after in item.below for before in seen)
            seen += [after.x for after in item.below]
    return total


def _wanted_x(item: Item, *, up: bool) -> float:
    """The mean of all neighbours; those on the side that the sweep comes from count more."""
    first, second = (item.above, item.below) if up else (item.below, item.above)
    weights = [(other.x, 4.0 if item.is_lane and other.is_lane else 1.0) for other in first]
    weights += [(other.x, 0.25) for other in second]
    if not weights:
        return item.x
    return sum(x * weight for x, weight in weights) / sum(weight for _, weight in weights)


def _spread(row: list[Item], wanted: list[float]) -> None:
    """The places nearest to the wanted ones at which nothing overlaps (least squares: pool adjacent violators)."""
    offset, offsets = 0.0, []
    for position, item in enumerate(row):
        if position:
            before = row[position - 1]
            gap = _LANE_GAP if before.is_lane and item.is_lane else _GAP
            offset += before.width / 2 + before.margin + gap + item.width / 2
        offsets.append(offset)
    pools: list[tuple[float, float, int]] = []  # mean, weight, members
    for item, target, shift in zip(row, wanted, offsets, strict=True):
        weight = 3.0 if item.is_lane else 1.0
        mean, members = target - shift, 1
        while pools and pools[-1][0] >= mean:
            other, other_weight, count = pools.pop()
            mean = (mean * weight + other * other_weight) / (weight + other_weight)
            weight, members = weight + other_weight, members + count
        pools.append((mean, weight, members))
    position = 0
    for mean, _, members in pools:
        for item in row[position : position + members]:
            item.x = mean + offsets[position]
            position += 1
