"""draw: a graph as the contents of a file."""

from __future__ import annotations

import os
from pathlib import Path

from nnet3.drawing.dot import to_dot
from nnet3.drawing.graph import Graph
from nnet3.drawing.graphviz import render
from nnet3.errors import DrawingError

FORMS = ("svg", "png", "dot")


def to_svg(graph: Graph, *, use_graphviz: bool | None = None) -> str:
    """Returns an SVG element, which is a whole file too. `use_graphviz`: see `draw`."""
    text = render(graph, "svg", use_graphviz).decode()
    return text[text.index("<svg") :]


def to_png(graph: Graph, path: str | os.PathLike[str], *, use_graphviz: bool | None = None) -> None:
    """Write a PNG file. `use_graphviz`: see `draw`."""
    Path(path).write_bytes(render(graph, "png", use_graphviz))


def draw(graph: Graph, form: str, *, use_graphviz: bool | None = None) -> bytes:
    """Returns the contents of a file of a form: svg, png or dot.

    `use_graphviz`: whether the program `dot` of this machine paints, or else the library that pygraphviz brings; by
    default the program if it is installed. Raises DrawingError where there is neither, and for other forms.
    """
    if form not in FORMS:
        raise DrawingError(f"a picture can be written as {', '.join(FORMS)}, not as '{form}'")
    if form == "svg":
        return to_svg(graph, use_graphviz=use_graphviz).encode()
    return to_dot(graph).encode() if form == "dot" else render(graph, form, use_graphviz)
