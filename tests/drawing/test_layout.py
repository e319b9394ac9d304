"""Places of boxes and paths of arcs: nothing overlaps, arcs begin and end at their boxes, ranks follow the arcs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import combinations

import pytest

from call_count import assert_calls_in_proportion
from drawing.pictures import random_graph, small_graph
from nnet3.drawing import Arc, Box, Graph
from nnet3.drawing.layout import Layout, PlacedArc, PlacedBox, label_width, lay_out
from nnet3.drawing.places import Item, order_rows
from nnet3.drawing.ranks import rank_boxes
from nnet3.drawing.straighten import place_rows
from nnet3.errors import DrawingError


def _overlap(a: PlacedBox, b: PlacedBox) -> bool:
    apart_x = a.x + a.width <= b.x or b.x + b.width <= a.x
    apart_y = a.y + a.height <= b.y or b.y + b.height <= a.y
    return not (apart_x or apart_y)


def _check(graph: Graph) -> Layout:
    layout = lay_out(graph)
    for a, b in combinations(layout.boxes, 2):
        assert not _overlap(a, b), (a.box.id, b.box.id)
    boxes = {placed.box.id: placed for placed in layout.boxes}
    assert set(boxes) == {box.id for box in graph.nodes}
    assert sorted(map(repr, (placed.arc for placed in layout.arcs))) == sorted(map(repr, graph.arcs))
    for placed in layout.arcs:
        for point, box in ((placed.start, boxes[placed.arc.a]), (placed.curves[-1][2], boxes[placed.arc.b])):
            assert box.x - 1e-6 <= point[0] <= box.x + box.width + 1e-6
            assert box.y - 1e-6 <= point[1] <= box.y + box.height + 1e-6
        for (_, _, end), (control, *_) in zip(placed.curves, placed.curves[1:], strict=False):
            assert 0 <= end[0] <= layout.width
            assert 0 <= control[1] <= layout.height
        assert (placed.label_at is None) == (not placed.arc.label)
    for box in layout.boxes:
        assert 0 <= box.x <= box.x + box.width <= layout.width
        assert 0 <= box.y <= box.y + box.height <= layout.height
    return layout


@pytest.mark.parametrize("seed", range(25))
def test_boxes_do_not_overlap_and_arcs_join_them(seed: int) -> None:
    _check(random_graph(seed))


def _label_box(placed: PlacedArc) -> PlacedBox:
    assert placed.label_at is not None
    x, y = placed.label_at
    width = label_width(placed.arc)
    return PlacedBox(Box(placed.arc.label, ()), x - width / 2, y - 7, width, 14)


def test_labels_stand_beside_boxes_and_beside_each_other() -> None:
    layout = _check(small_graph())
    labels = [_label_box(placed) for placed in layout.arcs if placed.label_at is not None]
    assert len(labels) == 6
    for a, b in combinations([*labels, *layout.boxes], 2):
        assert not _overlap(a, b), (a.box, b.box)


def test_ranks_follow_arcs_and_not_delays() -> None:
    ranks, upwards = rank_boxes(small_graph())
    assert ranks == {"input": 0, "ivector": 0, "affine": 1, "cell": 2, "self": 2, "range": 3, "output": 4}
    assert {(arc.a, arc.b) for arc in upwards} == {("range", "cell"), ("self", "cell")}


def test_an_input_stands_just_above_its_first_user() -> None:
    arcs = [Arc("a", "b"), Arc("b", "c"), Arc("late", "c")]
    ranks, _ = rank_boxes(Graph([Box(name, (name,)) for name in ("a", "b", "c", "late")], arcs))
    assert ranks["late"] == 1


def test_a_circle_without_delay_is_broken_somewhere() -> None:
    graph = Graph([Box(name, (name,)) for name in "abc"], [Arc("a", "b"), Arc("b", "c"), Arc("c", "a")])
    ranks, upwards = rank_boxes(graph)
    assert sorted(ranks.values()) == [0, 1, 2]
    assert len(upwards) == 1
    _check(graph)


def test_crossings_that_can_be_avoided_are() -> None:
    top, bottom = [Item(20, 20) for _ in range(5)], [Item(20, 20) for _ in range(5)]
    for item, below in zip(top, reversed(bottom), strict=True):
        item.below.append(below)
        below.above.append(item)
    rows = [top, bottom]
    order_rows(rows)
    place_rows(rows)
    assert all(item.x == pytest.approx(item.below[0].x, abs=1.0) for item in top)


def test_a_chain_is_a_straight_line() -> None:
    graph = Graph([Box(str(k), ("x" * (k + 1),)) for k in range(6)], [Arc(str(k), str(k + 1)) for k in range(5)])
    middles = {round(placed.middle, 3) for placed in _check(graph).boxes}
    assert len(middles) == 1


def test_places_that_are_given_are_kept() -> None:
    boxes = [Box(f"{r}{c}", ("x",), rank=r, column=float(c)) for r in range(3) for c in range(4)]
    graph = Graph(boxes, [Arc("00", "11"), Arc("11", "12", "t-1", is_delay=True), Arc("23", "13")])
    placed = {each.box.id: each for each in _check(graph).boxes}
    assert len({each.y for each in placed.values()}) == 3
    assert [placed[f"1{c}"].x for c in range(4)] == sorted({each.x for each in placed.values()})


@pytest.mark.parametrize("graph", [Graph([], []), Graph([Box("a", ())], []), Graph([Box("a", ("a",))], [], "title")])
def test_pictures_of_almost_nothing(graph: Graph) -> None:
    assert lay_out(graph).width > 0


def test_what_is_no_graph() -> None:
    with pytest.raises(DrawingError, match="there is no box 'b'"):
        Graph([Box("a", ())], [Arc("a", "b")])
    with pytest.raises(DrawingError, match="same id"):
        Graph([Box("a", ()), Box("a", ())], [])


def _chain(length: int) -> Graph:
    return Graph([Box(str(k), (str(k),)) for k in range(length)], [Arc(str(k), str(k + 1)) for k in range(length - 1)])


@pytest.mark.parametrize(("graph_of", "small", "large"), [(_chain, 250, 1000), (partial(random_graph, 1), 100, 400)])
def test_calls_are_in_proportion_to_the_number_of_boxes(
    graph_of: Callable[[int], Graph], small: int, large: int
) -> None:
    def work(size: int) -> Callable[[], object]:
        graph = graph_of(size)
        return lambda: lay_out(graph)

    assert_calls_in_proportion(work, small, large)
