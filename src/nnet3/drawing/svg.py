"""A picture as SVG, placed by our own layout."""

from __future__ import annotations

from html import escape

from nnet3.drawing.graph import Graph
from nnet3.drawing.layout import Layout, PlacedArc, PlacedBox, label_width, lay_out
from nnet3.drawing.style import (
    ARC,
    DELAY,
    FAINT,
    FONT,
    LABEL_SIZE,
    LINE_HEIGHT,
    PADDING_Y,
    TEXT,
    TEXT_SIZE,
    TITLE_SIZE,
    colours,
)

_DEFINITIONS = "".join(
    f'<marker id="{name}" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
    f'orient="auto-start-reverse"><path d="M0,1 L10,5 L0,9 z" fill="{colour}"/></marker>'
    for name, colour in (("arc", ARC), ("delay", DELAY))
)


def layered_svg(graph: Graph) -> str:
    """The text of an SVG file."""
    return _render(graph, lay_out(graph))


def _render(graph: Graph, layout: Layout) -> str:
    width, height = round(layout.width), round(layout.height)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'font-family="{FONT}">',
        f"<defs>{_DEFINITIONS}</defs>",
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    if graph.title:
        lines.append(_text(20, 24, graph.title, TITLE_SIZE, TEXT, bold=True, anchor="start"))
    lines += [_path(arc) for arc in layout.arcs]
    lines += [_box(box) for box in layout.boxes]
    lines += [_label(arc) for arc in layout.arcs if arc.label_at is not None]
    return "\n".join([*lines, "</svg>", ""])


def _path(placed: PlacedArc) -> str:
    x, y = placed.start
    path = f"M{x:.1f},{y:.1f}" + "".join(
        f" C{a[0]:.1f},{a[1]:.1f} {b[0]:.1f},{b[1]:.1f} {c[0]:.1f},{c[1]:.1f}" for a, b, c in placed.curves
    )
    name, colour, dash = ("delay", DELAY, ' stroke-dasharray="6,4"') if placed.arc.is_delay else ("arc", ARC, "")
    return f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="1.3"{dash} marker-end="url(#{name})"/>'


def _box(placed: PlacedBox) -> str:
    look = colours(placed.box.kind)
    lines = ["<g>"]
    if placed.box.tooltip:
        lines.append(f"<title>{escape(placed.box.tooltip)}</title>")
    lines.append(
        f'<rect x="{placed.x:.1f}" y="{placed.y:.1f}" width="{placed.width:.1f}" height="{placed.height:.1f}" rx="5" '
        f'fill="{look.fill}" stroke="{look.stroke}" stroke-width="1.2"/>'
    )
    for number, line in enumerate(placed.box.lines):
        y = placed.y + PADDING_Y + (number + 0.76) * LINE_HEIGHT
        size, colour = (TITLE_SIZE, TEXT) if number == 0 else (TEXT_SIZE, FAINT)
        lines.append(_text(placed.middle, y, line, size, colour, bold=number == 0))
    return "".join([*lines, "</g>"])


def _label(placed: PlacedArc) -> str:
    assert placed.label_at is not None
    x, y = placed.label_at
    width = label_width(placed.arc)
    back = f'<rect x="{x - width / 2:.1f}" y="{y - 7.5:.1f}" width="{width:.1f}" height="15" fill="white"/>'
    return back + _text(x, y + 4, placed.arc.label, LABEL_SIZE, DELAY if placed.arc.is_delay else FAINT)


def _text(x: float, y: float, text: str, size: int, colour: str, *, bold: bool = False, anchor: str = "middle") -> str:
    weight = ' font-weight="bold"' if bold else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="{colour}"{weight}>'
        f"{escape(text)}</text>"
    )
