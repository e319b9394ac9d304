"""A picture in the language of Graphviz, and Graphviz run on it where it is installed."""

from __future__ import annotations

import shutil
import subprocess

from nnet3.drawing.graph import Arc, Box, Graph
from nnet3.drawing.style import ARC, DELAY, FAINT, LABEL_SIZE, TEXT, TEXT_SIZE, TITLE_SIZE, colours
from nnet3.errors import DrawingError

_FONT = "DejaVu Sans"
_MOST_SECONDS = 120


def to_dot(graph: Graph) -> str:
    """The text of a `.dot` file."""
    lines = ["digraph {", f'  graph [fontname="{_FONT}", fontsize={TITLE_SIZE}, ranksep=0.35, nodesep=0.3];']
    if graph.title:
        lines.append(f"  label={_quoted(graph.title)}; labelloc=t; labeljust=l;")
    lines.append(f'  node [shape=box, style="rounded,filled", fontname="{_FONT}", fontsize={TEXT_SIZE}, height=0.1];')
    lines.append(f'  edge [fontname="{_FONT}", fontsize={LABEL_SIZE}, arrowsize=0.6];')
    names = {box.id: f"n{number}" for number, box in enumerate(graph.nodes)}
    lines += [f"  {names[box.id]} {_box(box)};" for box in graph.nodes]
    lines += _rows(graph, names)
    lines += [f"  {names[arc.a]} -> {names[arc.b]} {_arc(arc, graph)};" for arc in graph.arcs]
    return "\n".join([*lines, "}", ""])


def has_graphviz() -> bool:
    """Whether the program `dot` can be run."""
    return shutil.which("dot") is not None


def run_graphviz(graph: Graph, form: str) -> bytes:
    """What `dot -T<form>` makes of the graph. Raises DrawingError if it fails."""
    try:
        done = subprocess.run(
            ["dot", f"-T{form}"], input=to_dot(graph).encode(), capture_output=True, timeout=_MOST_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DrawingError(f"Graphviz (dot) failed: {error}") from None
    if done.returncode:
        raise DrawingError(f"Graphviz (dot) failed: {done.stderr.decode(errors='replace').strip()[:500]}")
    return done.stdout


def _box(box: Box) -> str:
    look = colours(box.kind)
    parts = [
        f'<FONT POINT-SIZE="{TEXT_SIZE if number else TITLE_SIZE}" COLOR="{FAINT if number else TEXT}">'
        f"{_escaped(line) if number else f'<B>{_escaped(line)}</B>'}</FONT>"
        for number, line in enumerate(box.lines)
    ]
    label = "<BR/>".join(parts)
    tooltip = f", tooltip={_quoted(box.tooltip)}" if box.tooltip else ""
    return f'[label=<{label}>, fillcolor="{look.fill}", color="{look.stroke}"{tooltip}]'


def _arc(arc: Arc, graph: Graph) -> str:
    parts = [f'color="{DELAY if arc.is_delay else ARC}"']
    if arc.label:
        parts.append(f'label={_quoted(arc.label)}, fontcolor="{DELAY if arc.is_delay else FAINT}"')
    if arc.is_delay:
        parts.append("style=dashed")
        if not graph.is_grid:
            parts.append("constraint=false")
    return f"[{', '.join(parts)}]"


def _rows(graph: Graph, names: dict[str, str]) -> list[str]:
    """Boxes whose places are given: one line a row, from left to right."""
    if not graph.is_grid:
        return []
    rows: dict[int, list[Box]] = {}
    for box in graph.nodes:
        rows.setdefault(box.rank or 0, []).append(box)
    lines = []
    for _, boxes in sorted(rows.items()):
        ordered = [names[box.id] for box in sorted(boxes, key=lambda box: box.column or 0.0)]
        lines.append(f"  {{ rank=same; {' -> '.join(ordered)} [style=invis]; }}")
    return lines


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;") or " "
