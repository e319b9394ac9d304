"""SVG, Graphviz text and PNG: well formed, with every text in them; Graphviz where it is installed."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from drawing.pictures import random_graph, small_graph
from nnet3.drawing import Box, Graph, draw, to_dot, to_png, to_svg
from nnet3.errors import DrawingError

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def _no_graphviz(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.fixture
def fake_dot(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A `dot` on the path that writes its arguments and what it reads, and fails for text with `fail` in it."""
    program = tmp_path / "dot"
    program.write_text(
        "#!/bin/sh\ninput=$(/bin/cat)\ncase \"$input\" in *fail*) echo 'syntax error' >&2; exit 1;; esac\n"
        'echo "$* $input"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    return program


@pytest.mark.usefixtures("_no_graphviz")
def test_svg_is_well_formed_and_says_everything() -> None:
    graph = small_graph()
    root = ElementTree.fromstring(to_svg(graph))
    texts = {element.text for element in root.iter(f"{SVG}text")}
    assert texts == {line for box in graph.nodes for line in box.lines} | {a.label for a in graph.arcs if a.label} | {
        "a small graph"
    }
    assert [element.text for element in root.iter(f"{SVG}title")] == ['a "quoted" & long one']
    paths = [element for element in root.iter(f"{SVG}path") if element.get("marker-end")]
    assert len(paths) == len(graph.arcs)
    assert sum(element.get("stroke-dasharray") is not None for element in paths) == 3


@pytest.mark.usefixtures("_no_graphviz")
@pytest.mark.parametrize("seed", range(3))
def test_svg_of_random_graphs(seed: int) -> None:
    root = ElementTree.fromstring(to_svg(random_graph(seed)))
    assert len(list(root.iter(f"{SVG}g"))) == 25


def test_dot_names_every_box_and_arc() -> None:
    text = to_dot(small_graph())
    assert text.startswith("digraph {")
    assert text.count(" -> ") == 10
    assert "<B>affine &lt;1&gt;</B>" in text
    assert 'label="t-3"' in text
    assert 'tooltip="a \\"quoted\\" & long one"' in text
    assert text.count("style=dashed") == 3
    assert draw(small_graph(), "dot").decode() == text


def test_dot_keeps_the_rows_of_a_grid() -> None:
    boxes = [Box(f"{r}{c}", ("x",), rank=r, column=float(c)) for r in range(2) for c in (1, 0)]
    assert "{ rank=same; n1 -> n0 [style=invis]; }" in to_dot(Graph(boxes, []))


@pytest.mark.usefixtures("_no_graphviz")
def test_png_by_matplotlib(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    to_png(small_graph(), tmp_path / "graph.png")
    contents = (tmp_path / "graph.png").read_bytes()
    assert contents.startswith(b"\x89PNG")
    width, height = (int.from_bytes(contents[at : at + 4], "big") for at in (16, 20))
    assert width > 500
    assert height > 500


@pytest.mark.usefixtures("_no_graphviz")
def test_png_without_anything_to_paint_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(DrawingError, match=r"needs Graphviz or matplotlib: install one of them, or write \.svg"):
        to_png(small_graph(), tmp_path / "graph.png")
    assert not (tmp_path / "graph.png").exists()


@pytest.mark.usefixtures("fake_dot")
def test_graphviz_is_used_where_it_is() -> None:
    assert to_svg(small_graph()).startswith("-Tsvg digraph {")
    assert draw(small_graph(), "png").startswith(b"-Tpng digraph {")
    assert to_svg(small_graph(), use_graphviz=False).startswith("<svg")
    with pytest.raises(DrawingError, match=r"dot.* failed: syntax error"):
        to_svg(Graph([Box("a", ("fail",))], []))


def test_another_form() -> None:
    with pytest.raises(DrawingError, match="svg, png, dot, not as 'gif'"):
        draw(small_graph(), "gif")
