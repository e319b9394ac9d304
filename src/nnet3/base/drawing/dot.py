"""Graphs to draw (boxes with lines of text, and arcs), the ranks of the boxes, and the graphs' text for Graphviz."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from nnet3.errors import DrawingError


@dataclass(frozen=True)
class Box:
    """A box with lines of text, the first in bold. `kind` decides its colour; see `nnet3.base.drawing.dot`.

    `rank` and `column` are for pictures whose positions are known: given for all boxes, they are a grid (ranks from the
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
        """True if the positions of all boxes are given."""
        return bool(self.nodes) and all(box.rank is not None and box.column is not None for box in self.nodes)


def rank_boxes(graph: Graph) -> tuple[dict[str, int], set[Arc]]:
    """Returns the rank of each box, from 0, and the upward arcs: delays, and arcs that close circles."""
    forward = [arc for arc in graph.arcs if not arc.is_delay and arc.a != arc.b]
    closing = _closing_arcs(graph, forward)
    forward = [arc for arc in forward if arc not in closing]
    ranks = _longest_paths(graph, forward)
    upwards = {arc for arc in graph.arcs if arc.a != arc.b and (arc in closing or ranks[arc.a] >= ranks[arc.b])}
    return ranks, upwards


def _users(graph: Graph, arcs: list[Arc]) -> dict[str, list[Arc]]:
    users: dict[str, list[Arc]] = {box.id: [] for box in graph.nodes}
    for arc in arcs:
        users[arc.a].append(arc)
    return users


def _closing_arcs(graph: Graph, arcs: list[Arc]) -> set[Arc]:
    """Returns the arcs back to a box on the path of a depth-first search; without them there are no circles."""
    users = _users(graph, arcs)
    closing: set[Arc] = set()
    state: dict[str, int] = {}  # 1: on the way, 2: done
    for box in graph.nodes:
        stack = [(box.id, iter(users[box.id]))] if box.id not in state else []
        state.setdefault(box.id, 1)
        while stack:
            here, arcs_left = stack[-1]
            arc = next(arcs_left, None)
            if arc is None:
                state[here] = 2
                stack.pop()
            elif state.get(arc.b) == 1:
                closing.add(arc)
            elif arc.b not in state:
                state[arc.b] = 1
                stack.append((arc.b, iter(users[arc.b])))
    return closing


def _longest_paths(graph: Graph, arcs: list[Arc]) -> dict[str, int]:
    users = _users(graph, arcs)
    waiting_for = dict.fromkeys(users, 0)
    for arc in arcs:
        waiting_for[arc.b] += 1
    sources = {box.id for box in graph.nodes if not waiting_for[box.id]}
    ready = deque(box.id for box in graph.nodes if box.id in sources)
    ranks = dict.fromkeys(users, 0)
    while ready:
        here = ready.popleft()
        for arc in users[here]:
            ranks[arc.b] = max(ranks[arc.b], ranks[here] + 1)
            waiting_for[arc.b] -= 1
            if not waiting_for[arc.b]:
                ready.append(arc.b)
    for source in sources:  # an input that only the third layer uses stands beside the second
        ranks[source] = min((ranks[arc.b] - 1 for arc in users[source]), default=0)
    return ranks


_LONGEST = 4000  # characters of a string: Graphviz reads at most 16384 bytes
_GAP_X, _GAP_Y = 30.0, 40.0  # between the boxes of a grid
_MOST_ROUTED = 100  # boxes of a grid round which arcs are led; the time for it grows with their third power

TITLE_SIZE, TEXT_SIZE, LABEL_SIZE = 13, 11, 11  # of fonts, in points
FONT = "DejaVu Sans,Verdana,Arial,sans-serif"


@dataclass(frozen=True)
class _Colours:
    fill: str
    stroke: str


KINDS = {
    "input": _Colours("#e3f1e1", "#3d8b37"),
    "output": _Colours("#fbe3e0", "#b8442f"),
    "trained": _Colours("#e4ecfa", "#3a63b0"),
    "function": _Colours("#fdf3d8", "#b58a1b"),
    "memory": _Colours("#efe4f7", "#7d4ba3"),
    "glue": _Colours("#f2f2f2", "#777777"),
    "plain": _Colours("#ffffff", "#555555"),
}
TEXT, FAINT, ARC, DELAY = "#222222", "#555555", "#555555", "#a03a8a"


def to_dot(graph: Graph) -> str:
    """Returns the text of a `.dot` file."""
    lines = ["digraph {", f'  graph [fontname="{FONT}", fontsize={TITLE_SIZE}, ranksep=0.35, nodesep=0.3];']
    if graph.is_grid:
        splines = "true" if len(graph.nodes) <= _MOST_ROUTED else "line"
        lines.append(f"  layout=nop; splines={splines}; outputorder=edgesfirst;")
    if graph.title:
        lines.append(f"  label=<<B>{_escaped(graph.title)}</B>>; labelloc=t; labeljust=l;")
    lines.append(f'  node [shape=box, style="rounded,filled", fontname="{FONT}", fontsize={TEXT_SIZE}, height=0.1];')
    lines.append(f'  edge [fontname="{FONT}", fontsize={LABEL_SIZE}, arrowsize=0.6];')
    names = {box.id: f"n{number}" for number, box in enumerate(graph.nodes)}
    positions = _positions(graph) if graph.is_grid else {}
    lines += [f"  {names[box.id]} {_box(box, positions.get(box.id, ''))};" for box in graph.nodes]
    _, upwards = (None, set[Arc]()) if graph.is_grid else rank_boxes(graph)
    lines += [f"  {_arc(arc, names, is_upwards=arc in upwards)};" for arc in graph.arcs]
    return "\n".join([*lines, "}", ""])


def _positions(graph: Graph) -> dict[str, str]:
    """Returns the attribute with the middle of each box of a grid, by its id: points to the right and upwards."""
    sizes = [box_size(box) for box in graph.nodes]
    pitch_x, pitch_y = max(width for width, _ in sizes) + _GAP_X, max(height for _, height in sizes) + _GAP_Y
    return {box.id: f', pos="{(box.column or 0.0) * pitch_x:g},{-(box.rank or 0) * pitch_y:g}"' for box in graph.nodes}


def box_size(box: Box) -> tuple[float, float]:
    """Returns about the width and height in points, rather too much than too little."""
    widths = [0.75 * len(line) * (TEXT_SIZE if number else TITLE_SIZE) for number, line in enumerate(box.lines)]
    return max(widths, default=0.0) + 16, len(box.lines) * 15.0 + 14


def _box(box: Box, position: str) -> str:
    look = KINDS.get(box.kind, KINDS["plain"])
    parts = [
        f'<FONT POINT-SIZE="{TEXT_SIZE if number else TITLE_SIZE}" COLOR="{FAINT if number else TEXT}">'
        f"{_escaped(line) if number else f'<B>{_escaped(line)}</B>'}</FONT>"
        for number, line in enumerate(box.lines)
    ]
    label = "<BR/>".join(parts)
    tooltip = f", tooltip={_quoted(box.tooltip)}" if box.tooltip else ""
    return f'[label=<{label}>, fillcolor="{look.fill}", color="{look.stroke}"{tooltip}{position}]'


def _arc(arc: Arc, names: dict[str, str], *, is_upwards: bool) -> str:
    """Formats an arc; an upward arc is written from top to bottom, so that Graphviz keeps the boxes' ranks."""
    parts = [f'color="{DELAY if arc.is_delay else ARC}"']
    if arc.label:
        parts.append(f'label={_quoted(arc.label)}, fontcolor="{DELAY if arc.is_delay else FAINT}"')
    if arc.is_delay:
        parts.append("style=dashed")
    if is_upwards:
        parts.append("dir=back")
    upper, lower = (arc.b, arc.a) if is_upwards else (arc.a, arc.b)
    return f"{names[upper]} -> {names[lower]} [{', '.join(parts)}]"


def _quoted(text: str) -> str:
    text = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;") or " "
