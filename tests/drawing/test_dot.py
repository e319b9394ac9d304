"""The text for Graphviz: every box and arc, quoted; arcs from the top down; the places of a grid."""

from __future__ import annotations

from nnet3.base.drawing import Arc, Box, Graph, draw, to_dot
from tests.drawing.pictures import small_graph


def grid(rows: int, columns: int) -> Graph:
    boxes = [Box(f"{r}.{c}", ("x",), rank=r, column=float(c)) for r in range(rows) for c in range(columns)]
    return Graph(boxes, [Arc("1.0", "0.0", is_delay=True)])


def test_every_box_and_arc_is_named() -> None:
    text = to_dot(small_graph())
    assert text.startswith("digraph {")
    assert text.count(" -> ") == 10
    assert "<B>affine &lt;1&gt;</B>" in text
    assert 'label="t-3"' in text
    assert 'tooltip="a \\"quoted\\" & long one"' in text
    assert text.count("style=dashed") == 3
    assert "label=<<B>a small graph</B>>" in text
    assert draw(small_graph(), "dot").decode() == text


def test_a_long_string_is_cut_to_what_graphviz_reads() -> None:
    graph = Graph([Box("a", ("a",), tooltip="é" * 20000)], [])
    assert f'tooltip="{"é" * 4000}…"' in to_dot(graph)
    assert draw(graph, "svg").startswith(b"<svg")


def test_arcs_that_lead_upwards_are_said_from_top_to_bottom() -> None:
    """input, ivector, affine, cell, range, self, output are n0 to n6: range and self look back to cell."""
    lines = [line for line in to_dot(small_graph()).splitlines() if "dir=back" in line]
    assert [line.split(" [")[0].strip() for line in lines] == ["n3 -> n4", "n3 -> n5"]


def test_the_boxes_of_a_grid_have_their_places() -> None:
    text = to_dot(grid(2, 2))
    places = [line.split('pos="')[1].split('"')[0] for line in text.splitlines() if "pos=" in line]
    (x, _), (_, y) = (place.split(",") for place in places[1:3])
    assert places == ["0,0", f"{x},0", f"0,{y}", f"{x},{y}"]
    assert float(x) > 0 > float(y)
    assert "layout=nop; splines=true;" in text
    assert "n2 -> n0" in text, "arcs of a grid lead where they lead"


def test_arcs_of_a_large_grid_are_straight() -> None:
    assert "splines=true;" in to_dot(grid(10, 10))
    assert "splines=line;" in to_dot(grid(10, 11))
