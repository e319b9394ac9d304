"""Where everything in a picture stands: boxes in rows from the top down, arcs in lanes between them.

Rows of boxes alternate with rows of labels, so that a label has a place of its own just above the box it belongs to.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

from nnet3.drawing.graph import Arc, Box, Graph
from nnet3.drawing.places import Item, order_rows
from nnet3.drawing.ranks import rank_boxes
from nnet3.drawing.straighten import place_rows
from nnet3.drawing.style import LABEL_SIZE, LINE_HEIGHT, TITLE_SIZE, box_size, text_width

_MARGIN = 20.0
_ROW_GAP = 14.0  # between a row of boxes and the row of labels below it
_LOOP_WIDTH = 26.0
_GRID_GAP_X, _GRID_GAP_Y = 30.0, 54.0
_PORT_PITCH = 18.0
_SHORT_PULL = 4.0  # boxes stand below each other rather than below the lane of a bypass

Point = tuple[float, float]


@dataclass(frozen=True)
class PlacedBox:
    """A box with its upper left corner and size."""

    box: Box
    x: float
    y: float
    width: float
    height: float

    @property
    def middle(self) -> float:
        return self.x + self.width / 2


@dataclass(frozen=True)
class PlacedArc:
    """An arc as a path: a start and then cubic Bezier segments (two control points and an end each)."""

    arc: Arc
    start: Point
    curves: tuple[tuple[Point, Point, Point], ...]
    label_at: Point | None = None  # the middle of the label


@dataclass(frozen=True)
class Layout:
    width: float
    height: float
    boxes: tuple[PlacedBox, ...]
    arcs: tuple[PlacedArc, ...]
    title_height: float = 0.0


def lay_out(graph: Graph) -> Layout:
    """A place for every box and a path for every arc."""
    boxes, arcs = _grid(graph) if graph.is_grid else _Layers(graph).placed()
    top = TITLE_SIZE * 2.0 if graph.title else 0.0
    return _framed(boxes, arcs, graph.title, top)


def _framed(boxes: list[PlacedBox], arcs: list[PlacedArc], title: str, top: float) -> Layout:
    """Everything moved so that it begins at the margin, with the size of the whole."""
    xs, ys = [0.0] if not boxes else [], [0.0] if not boxes else []
    for box in boxes:
        xs += [box.x, box.x + box.width]
        ys += [box.y, box.y + box.height]
    for arc in arcs:
        points = [arc.start, *(point for curve in arc.curves for point in curve)]
        if arc.label_at is not None:
            half = label_width(arc.arc) / 2
            points += [(arc.label_at[0] - half, arc.label_at[1]), (arc.label_at[0] + half, arc.label_at[1])]
        xs += [x for x, _ in points]
        ys += [y for _, y in points]
    dx, dy = _MARGIN - min(xs), _MARGIN + top - min(ys)
    width = max(max(xs) - min(xs), text_width(title, TITLE_SIZE, bold=True)) + 2 * _MARGIN
    height = max(ys) - min(ys) + 2 * _MARGIN + top
    moved = [PlacedBox(b.box, b.x + dx, b.y + dy, b.width, b.height) for b in boxes]
    return Layout(width, height, tuple(moved), tuple(_moved(arc, dx, dy) for arc in arcs), top)


def _moved(arc: PlacedArc, dx: float, dy: float) -> PlacedArc:
    def move(point: Point) -> Point:
        return point[0] + dx, point[1] + dy

    curves = tuple((move(a), move(b), move(c)) for a, b, c in arc.curves)
    return PlacedArc(arc.arc, move(arc.start), curves, None if arc.label_at is None else move(arc.label_at))


def label_width(arc: Arc) -> float:
    return text_width(arc.label, LABEL_SIZE) + 6 if arc.label else 0.0


# ---- boxes whose places are given ----


def _grid(graph: Graph) -> tuple[list[PlacedBox], list[PlacedArc]]:
    sizes = {box.id: box_size(box) for box in graph.nodes}
    pitch_x = max(width for width, _ in sizes.values()) + _GRID_GAP_X
    pitch_y = max(height for _, height in sizes.values()) + _GRID_GAP_Y
    placed = {
        box.id: PlacedBox(
            box, (box.column or 0.0) * pitch_x - sizes[box.id][0] / 2, (box.rank or 0) * pitch_y, *sizes[box.id]
        )
        for box in graph.nodes
    }
    return list(placed.values()), [_straight(arc, placed[arc.a], placed[arc.b]) for arc in graph.arcs]


def _straight(arc: Arc, a: PlacedBox, b: PlacedBox) -> PlacedArc:
    """From one box to the other, between the boxes that stand in the way rather than behind them."""
    rows = (b.box.rank or 0) - (a.box.rank or 0)
    sign = 1.0 if a.x <= b.x else -1.0
    side = (b.middle - sign * b.width / 2, b.y + b.height / 2)  # of b, where it faces a
    if rows > 1 and a.box.column == b.box.column:
        start, end = (a.x + a.width, a.y + a.height / 2), (b.x + b.width, b.y + b.height / 2)
        bulge = max(start[0], end[0]) + _GRID_GAP_X
        curves = [((bulge, start[1]), (bulge, end[1]), end)]
    elif rows > 0:
        start, end = (a.middle, a.y + a.height), (b.middle, b.y)
        bend = (end[1] - start[1]) / 3
        curves = [((start[0], start[1] + bend), (end[0], end[1] - bend), end)]
    elif rows < 0:
        start = (a.middle, a.y)
        lane = side[0] - sign * _GRID_GAP_X * 0.4
        top = a.y - _GRID_GAP_Y * 0.8
        turn = (lane, top)
        curves = [
            ((start[0], start[1] - _GRID_GAP_Y * 0.5), (lane, a.y - _GRID_GAP_Y * 0.5), turn),
            ((lane, min(top, side[1])), (lane, side[1]), side),
        ]
    elif abs((a.box.column or 0.0) - (b.box.column or 0.0)) > 1:
        start, end = (a.middle, a.y), (b.middle, b.y)
        high = min(a.y, b.y) - _GRID_GAP_Y * 0.7
        curves = [((start[0], high), (end[0], high), end)]
    else:
        start = (a.middle + sign * a.width / 2, a.y + a.height / 2)
        bend = (side[0] - start[0]) / 3
        curves = [((start[0] + bend, start[1]), (side[0] - bend, side[1]), side)]
    end = curves[-1][2]
    label = ((start[0] + end[0]) / 2, (start[1] + end[1]) / 2) if arc.label else None
    return PlacedArc(arc, start, tuple(curves), label)


# ---- boxes to be arranged ----


@dataclass
class _Chain:
    """An arc with the items it passes through from top to bottom, its two boxes included."""

    arc: Arc
    items: list[Item]
    label: Item | None
    upwards: bool
    ports: tuple[float, float] = field(default=(0.0, 0.0))  # x at the upper and the lower end


class _Layers:
    """Row 2k holds the boxes of rank k, row 2k - 1 the labels of arcs that enter them."""

    def __init__(self, graph: Graph):
        self.graph = graph
        self.ranks, self.upwards = rank_boxes(graph)
        self.rows: list[list[Item]] = [[] for _ in range(2 * max(self.ranks.values(), default=0) + 2)]
        self.items: dict[str, Item] = {}
        self.loops = [arc for arc in graph.arcs if arc.a == arc.b]
        for box in graph.nodes:
            width, height = box_size(box)
            self.items[box.id] = Item(width, height)
            self.rows[2 * self.ranks[box.id]].append(self.items[box.id])
        for arc in self.loops:
            self.items[arc.a].margin += _LOOP_WIDTH + label_width(arc)
        self.chains = [self._chain(arc) for arc in graph.arcs if arc.a != arc.b]
        order_rows(self.rows)
        place_rows(self.rows)
        self.tops = self._tops()
        self._set_ports()

    def _chain(self, arc: Arc) -> _Chain:
        upwards = arc in self.upwards
        upper, lower = (arc.b, arc.a) if upwards else (arc.a, arc.b)
        first, last = 2 * self.ranks[upper], 2 * self.ranks[lower]
        level = first == last  # a delay between boxes side by side goes round below them
        label_row = first + 1 if upwards else last - 1
        label, between = None, []
        for row in [first + 1] if level else range(first + 1, last):
            item = Item()
            if row == label_row and arc.label:
                label = item = Item(label_width(arc), LINE_HEIGHT)
            self.rows[row].append(item)
            between.append(item)
        for item in between:
            item.is_between = True
            item.pull = _SHORT_PULL if len(between) == 1 and not upwards else 1.0
        items = [self.items[upper], *between, self.items[lower]]
        downwards = list(pairwise(items))
        if level:
            downwards[-1] = (items[-1], items[-2])
        for above, below in downwards:
            above.below.append(below)
            below.above.append(above)
        return _Chain(arc, items, label, upwards)

    def _tops(self) -> dict[int, float]:
        """The upper edge of each row, by the number of the row."""
        tops, y = {}, 0.0
        for number, row in enumerate(self.rows):
            tops[number] = y
            y += max((item.height for item in row), default=0.0) + _ROW_GAP
        return tops

    def _row_of(self) -> dict[int, int]:
        return {id(item): number for number, row in enumerate(self.rows) for item in row}

    def _set_ports(self) -> None:
        """Arcs leave and enter a box side by side, in the order of where they go."""
        for item in self.items.values():
            for lower in (True, False):
                chains = [chain for chain in self.chains if chain.items[0 if lower else -1] is item]
                chains.sort(key=lambda chain: chain.items[1 if lower else -2].x)
                pitch = min(_PORT_PITCH, item.width * 0.8 / max(1, len(chains)))
                for position, chain in enumerate(chains):
                    x = item.x + (position - (len(chains) - 1) / 2) * pitch
                    chain.ports = (x, chain.ports[1]) if lower else (chain.ports[0], x)

    def placed(self) -> tuple[list[PlacedBox], list[PlacedArc]]:
        boxes = []
        for box in self.graph.nodes:
            item, row = self.items[box.id], 2 * self.ranks[box.id]
            y = self.tops[row] + (self._height(row) - item.height) / 2
            boxes.append(PlacedBox(box, item.x - item.width / 2, y, item.width, item.height))
        by_id = {placed.box.id: placed for placed in boxes}
        rows = self._row_of()
        arcs = [self._route(chain, by_id, rows) for chain in self.chains]
        return boxes, arcs + [_loop(arc, by_id[arc.a]) for arc in self.loops]

    def _height(self, row: int) -> float:
        return max((item.height for item in self.rows[row]), default=0.0)

    def _route(self, chain: _Chain, boxes: dict[str, PlacedBox], rows: dict[int, int]) -> PlacedArc:
        upper, lower = (chain.arc.b, chain.arc.a) if chain.upwards else (chain.arc.a, chain.arc.b)
        start = (chain.ports[0], boxes[upper].y + boxes[upper].height)
        if self.ranks[upper] == self.ranks[lower]:
            row = rows[id(chain.items[1])]
            low = (chain.items[1].x, self.tops[row] + self._height(row) / 2)
            return _round_below(chain.arc, (chain.ports[1], boxes[lower].y + boxes[lower].height), low, start)
        end = (chain.ports[1], boxes[lower].y)
        stops = [(item.x, self.tops[rows[id(item)]], self._height(rows[id(item)])) for item in chain.items[1:-1]]
        points: list[tuple[Point, Point]] = [((x, top), (x, top + height)) for x, top, height in stops]
        curves, here = [], start
        for above, below in [*points, (end, end)]:
            bend = (above[1] - here[1]) / 2
            curves.append(((here[0], here[1] + bend), (above[0], above[1] - bend), above))
            if below != above:
                curves.append((above, below, below))
            here = below
        if chain.upwards:
            start, curves = _reversed(start, curves)
        label = None
        if chain.label is not None:
            row = rows[id(chain.label)]
            label = (chain.label.x, self.tops[row] + self._height(row) / 2)
        return PlacedArc(chain.arc, start, tuple(curves), label)


def _reversed(start: Point, curves: list[tuple[Point, Point, Point]]) -> tuple[Point, list[tuple[Point, Point, Point]]]:
    ends = [start, *(curve[2] for curve in curves)]
    return ends[-1], [(b, a, ends[number]) for number, (a, b, _) in reversed(list(enumerate(curves)))]


def _round_below(arc: Arc, start: Point, low: Point, end: Point) -> PlacedArc:
    """From the lower side of one box through a point below it to the lower side of a box beside it."""
    first = ((start[0], low[1]), ((start[0] + low[0]) / 2, low[1]), low)
    second = (((low[0] + end[0]) / 2, low[1]), (end[0], low[1]), end)
    return PlacedArc(arc, start, (first, second), low if arc.label else None)


def _loop(arc: Arc, box: PlacedBox) -> PlacedArc:
    """From the lower part of a box round its right side back to the upper part."""
    right = box.x + box.width
    start, end = (right, box.y + box.height * 0.75), (right, box.y + box.height * 0.25)
    curve = ((right + _LOOP_WIDTH, start[1] + 8), (right + _LOOP_WIDTH, end[1] - 8), end)
    label = (right + _LOOP_WIDTH + label_width(arc) / 2 - 4, box.y + box.height / 2) if arc.label else None
    return PlacedArc(arc, start, (curve,), label)
