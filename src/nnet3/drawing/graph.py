"""Graphs to draw: boxes with lines of text, and arcs between them. Nothing here knows what they stand for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from nnet3.errors import DrawingError


@dataclass(frozen=True)
class Box:
    """A box with lines of text, the first in bold. `kind` decides its colour; see `nnet3.drawing.dot`.

    `rank` and `column` are for pictures whose places are known: given for all boxes, they are a grid (ranks from the
    top down, columns from the left), and nothing is arranged. `tooltip` is shown by browsers that point at the box.
    """

    id: str
    lines: tuple[str, ...]
    kind: str = "plain"
    rank: int | None = None
    column: float | None = None
    tooltip: str = ""


@dataclass(frozen=True)
class Arc:
    """An arrow from box `a` to box `b`. One with `is_delay` is dashed and may lead upwards."""

    a: str
    b: str
    label: str = ""
    is_delay: bool = False


class Graph:
    """Boxes, arcs and a title. Raises DrawingError for an arc without boxes and for boxes of equal id."""

    def __init__(self, nodes: Iterable[Box], arcs: Iterable[Arc], title: str = ""):
        self.nodes, self.arcs, self.title = tuple(nodes), tuple(arcs), title
        known = {box.id for box in self.nodes}
        if len(known) < len(self.nodes):
            raise DrawingError("two boxes of a picture have the same id")
        for arc in self.arcs:
            for end in (arc.a, arc.b):
                if end not in known:
                    raise DrawingError(f"an arc from '{arc.a}' to '{arc.b}', but there is no box '{end}'")

    @property
    def is_grid(self) -> bool:
        """True if the places of all boxes are given."""
        return bool(self.nodes) and all(box.rank is not None and box.column is not None for box in self.nodes)
