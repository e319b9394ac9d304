"""Pictures of graphs: boxes and arcs as SVG, PNG or Graphviz text. Knows nothing of networks.

With Graphviz on the machine (the program `dot`) it arranges the boxes; without it a layout of our own does.
"""

from __future__ import annotations

import os
from pathlib import Path

from nnet3.drawing.dot import has_graphviz, run_graphviz, to_dot
from nnet3.drawing.graph import Arc, Box, Graph
from nnet3.drawing.png import layered_png
from nnet3.drawing.svg import layered_svg
from nnet3.errors import DrawingError

FORMS = ("svg", "png", "dot")


def to_svg(graph: Graph, *, use_graphviz: bool | None = None) -> str:
    """The text of an SVG file. `use_graphviz=None`: where it is installed and the boxes' places are not given."""
    if _uses_graphviz(graph, use_graphviz):
        return run_graphviz(graph, "svg").decode()
    return layered_svg(graph)


def to_png(graph: Graph, path: str | os.PathLike[str], *, use_graphviz: bool | None = None) -> None:
    """Write a PNG file. Raises DrawingError where there is neither Graphviz nor matplotlib."""
    Path(path).write_bytes(_png(graph, use_graphviz))


def draw(graph: Graph, form: str, *, use_graphviz: bool | None = None) -> bytes:
    """The contents of a file of a form: svg, png or dot."""
    if form == "png":
        return _png(graph, use_graphviz)
    if form == "svg":
        return to_svg(graph, use_graphviz=use_graphviz).encode()
    if form == "dot":
        return to_dot(graph).encode()
    raise DrawingError(f"a picture can be written as {', '.join(FORMS)}, not as '{form}'")


def _png(graph: Graph, use_graphviz: bool | None) -> bytes:
    return run_graphviz(graph, "png") if _uses_graphviz(graph, use_graphviz) else layered_png(graph)


def _uses_graphviz(graph: Graph, wanted: bool | None) -> bool:
    return has_graphviz() and not graph.is_grid if wanted is None else wanted


__all__ = ["FORMS", "Arc", "Box", "Graph", "draw", "to_dot", "to_png", "to_svg"]
