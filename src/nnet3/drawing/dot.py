"""Pictures in DOT, the language of Graphviz."""

from __future__ import annotations

from dataclasses import dataclass

from nnet3.drawing.graph import Arc, Box, Graph
from nnet3.drawing.ranks import rank_boxes

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
    places = _places(graph) if graph.is_grid else {}
    lines += [f"  {names[box.id]} {_box(box, places.get(box.id, ''))};" for box in graph.nodes]
    _, upwards = (None, set[Arc]()) if graph.is_grid else rank_boxes(graph)
    lines += [f"  {_arc(arc, names, is_upwards=arc in upwards)};" for arc in graph.arcs]
    return "\n".join([*lines, "}", ""])


def _places(graph: Graph) -> dict[str, str]:
    """Returns the attribute with the middle of each box of a grid, by its id: points to the right and upwards."""
    sizes = [box_size(box) for box in graph.nodes]
    pitch_x, pitch_y = max(width for width, _ in sizes) + _GAP_X, max(height for _, height in sizes) + _GAP_Y
    return {box.id: f', pos="{(box.column or 0.0) * pitch_x:g},{-(box.rank or 0) * pitch_y:g}"' for box in graph.nodes}


def box_size(box: Box) -> tuple[float, float]:
    """Returns about the width and height in points, rather too much than too little."""
    widths = [0.75 * len(line) * (TEXT_SIZE if number else TITLE_SIZE) for number, line in enumerate(box.lines)]
    return max(widths, default=0.0) + 16, len(box.lines) * 15.0 + 14


def _box(box: Box, place: str) -> str:
    look = KINDS.get(box.kind, KINDS["plain"])
    parts = [
        f'<FONT POINT-SIZE="{TEXT_SIZE if number else TITLE_SIZE}" COLOR="{FAINT if number else TEXT}">'
        f"{_escaped(line) if number else f'<B>{_escaped(line)}</B>'}</FONT>"
        for number, line in enumerate(box.lines)
    ]
    label = "<BR/>".join(parts)
    tooltip = f", tooltip={_quoted(box.tooltip)}" if box.tooltip else ""
    return f'[label=<{label}>, fillcolor="{look.fill}", color="{look.stroke}"{tooltip}{place}]'


def _arc(arc: Arc, names: dict[str, str], *, is_upwards: bool) -> str:
    """Formats an arc, from top to bottom if it leads upwards, so that Graphviz keeps the ranks of its boxes."""
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
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;") or " "
