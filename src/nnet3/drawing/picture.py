"""Picture: a drawn graph, which notebooks show."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from nnet3.drawing.dot import to_dot
from nnet3.drawing.draw import draw, to_svg
from nnet3.drawing.graph import Graph

MOST_SHOWN_BOXES = 60  # of a network that a notebook shows without being asked for a picture


@dataclass(frozen=True)
class Picture:
    """A drawn network; notebooks show it."""

    graph: Graph

    @property
    def dot(self) -> str:
        """Text for Graphviz."""
        return to_dot(self.graph)

    @property
    def svg(self) -> str:
        """The text of an SVG file."""
        return to_svg(self.graph)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write an .svg, .png or .dot file. Raises DrawingError for other names."""
        Path(path).write_bytes(draw(self.graph, Path(path).suffix.removeprefix(".")))

    def _repr_svg_(self) -> str:
        return self.svg
