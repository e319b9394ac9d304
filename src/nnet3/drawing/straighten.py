"""Where things stand in rows whose order is settled: what should be in a straight line forms blocks, which then move.

Of the links between two rows those that pull most become straight first, as long as they do not cross. A block of
things in a straight line moves as a whole to where its other neighbours are, as far as there is room.
"""

from __future__ import annotations

from collections import deque
from itertools import pairwise

from nnet3.drawing.places import Item

_SWEEPS = 24
_GAP, _LANE_GAP = 26.0, 14.0  # between neighbours in a row
_STRAIGHT = 8.0  # pull between two items on the way of one arc


class _Block:
    """Items of successive rows that stand exactly below each other."""

    def __init__(self, item: Item):
        self.items = [item]
        self.x = 0.0
        self.links: list[tuple[float, _Block]] = []
        self.before: list[tuple[float, _Block]] = []  # neighbours to the left in some row, and how far away at least
        self.after: list[tuple[float, _Block]] = []

    @property
    def wanted(self) -> float:
        """The mean place of what it is linked with."""
        total = sum(weight for weight, _ in self.links)
        return sum(weight * block.x for weight, block in self.links) / total if total else self.x

    def move(self) -> None:
        """As near to the wanted place as the neighbours leave room."""
        low = max((block.x + distance for distance, block in self.before), default=float("-inf"))
        high = min((block.x - distance for distance, block in self.after), default=float("inf"))
        self.x = min(max(self.wanted, low), high)


def place_rows(rows: list[list[Item]]) -> None:
    """Set the `x` of every item."""
    blocks = _blocks(rows)
    _pack(blocks)
    for sweep in range(_SWEEPS):
        for block in blocks if sweep % 2 == 0 else reversed(blocks):
            block.move()
    for block in blocks:
        for item in block.items:
            item.x = block.x


def _weight(above: Item, below: Item) -> float:
    return _STRAIGHT if above.is_between and below.is_between else above.pull * below.pull


def _blocks(rows: list[list[Item]]) -> list[_Block]:
    block_of: dict[int, _Block] = {}
    for upper, lower in pairwise([[], *rows]):
        straight = _straight_links(upper, lower)
        for item in lower:
            above = straight.get(id(item))
            if above is None:
                block_of[id(item)] = _Block(item)
            else:
                block_of[id(item)] = block_of[id(above)]
                block_of[id(above)].items.append(item)
    for row in rows:
        for left, right in pairwise(row):
            distance, before, after = _distance(left, right), block_of[id(left)], block_of[id(right)]
            after.before.append((distance, before))
            before.after.append((distance, after))
        for item in row:
            block = block_of[id(item)]
            pairs = [(_weight(other, item), block_of[id(other)]) for other in item.above]
            pairs += [(_weight(item, other), block_of[id(other)]) for other in item.below]
            block.links += [(weight, other) for weight, other in pairs if other is not block]
    return list(dict.fromkeys(block_of.values()))


def _straight_links(upper: list[Item], lower: list[Item]) -> dict[int, Item]:
    """For items of the lower row (by id) the one above that they stand straight below."""
    places = {id(item): position for row in (upper, lower) for position, item in enumerate(row)}
    links = [(above, below) for below in lower for above in below.above if id(above) in places]

    def merit(link: tuple[Item, Item]) -> tuple[float, float]:
        above, below = link
        return -_weight(above, below), _off_middle(below, above.below, places) + _off_middle(above, below.above, places)

    chosen: list[tuple[int, int]] = []
    straight: dict[int, Item] = {}
    for above, below in sorted(links, key=merit):
        pair = (places[id(above)], places[id(below)])
        if all((pair[0] - p) * (pair[1] - q) > 0 for p, q in chosen):
            chosen.append(pair)
            straight[id(below)] = above
    return straight


def _off_middle(item: Item, siblings: list[Item], places: dict[int, int]) -> float:
    ordered = sorted(places.get(id(other), 0) for other in siblings)
    return abs(ordered.index(places[id(item)]) - (len(ordered) - 1) / 2)


def _distance(left: Item, right: Item) -> float:
    gap = _LANE_GAP if left.is_between and right.is_between else _GAP
    return left.width / 2 + left.margin + gap + right.width / 2


def _pack(blocks: list[_Block]) -> None:
    """Every block between its leftmost and its rightmost place."""
    lefts = _leftmost(blocks)
    width = max(lefts.values(), default=0.0)
    slack_right = _leftmost(blocks, mirrored=True)
    for block in blocks:
        block.x = (lefts[id(block)] + width - slack_right[id(block)]) / 2
    for block in _in_order(blocks):  # the mean of both keeps all distances, except for rounding
        low = max((other.x + distance for distance, other in block.before), default=block.x)
        block.x = max(block.x, low)


def _leftmost(blocks: list[_Block], *, mirrored: bool = False) -> dict[int, float]:
    places = {id(block): 0.0 for block in blocks}
    ordered = _in_order(blocks)
    for block in reversed(ordered) if mirrored else ordered:
        for distance, other in block.before if mirrored else block.after:
            places[id(other)] = max(places[id(other)], places[id(block)] + distance)
    return places


def _in_order(blocks: list[_Block]) -> list[_Block]:
    """Blocks from left to right: each after all that are to the left of it in some row."""
    waiting = {id(block): len(block.before) for block in blocks}
    ready = deque(block for block in blocks if not block.before)
    order = []
    while ready:
        block = ready.popleft()
        order.append(block)
        for _, other in block.after:
            waiting[id(other)] -= 1
            if waiting[id(other)] == 0:
                ready.append(other)
    assert len(order) == len(blocks), "links that do not cross leave an order from left to right"
    return order
