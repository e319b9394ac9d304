"""A picture as PNG, painted by matplotlib on the places of our own layout."""

from __future__ import annotations

import io
from typing import Any

from nnet3.drawing.graph import Graph
from nnet3.drawing.layout import PlacedArc, PlacedBox, lay_out
from nnet3.drawing.style import (
    ARC,
    DELAY,
    FAINT,
    LABEL_SIZE,
    LINE_HEIGHT,
    PADDING_Y,
    TEXT,
    TEXT_SIZE,
    TITLE_SIZE,
    colours,
)
from nnet3.errors import DrawingError

_DPI = 144  # two pixels of the picture for one of the layout
_MOST_PIXELS = 40_000_000  # beyond, the resolution is lowered


def layered_png(graph: Graph) -> bytes:
    """The bytes of a PNG file. Raises DrawingError if matplotlib is not there."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise DrawingError(
            "a PNG needs Graphviz or matplotlib: install one of them, or write .svg or .dot instead"
        ) from None
    layout = lay_out(graph)
    dpi = min(_DPI, 72 * (_MOST_PIXELS / (layout.width * layout.height)) ** 0.5, 72 * 65000 / layout.height)
    figure = Figure(figsize=(layout.width / 72, layout.height / 72), dpi=dpi)
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, layout.width)
    axes.set_ylim(layout.height, 0)
    axes.axis("off")
    if graph.title:
        _text(axes, 20, 20, graph.title, TITLE_SIZE, TEXT, bold=True, anchor="left")
    for arc in layout.arcs:
        _paint_arc(axes, arc)
    for box in layout.boxes:
        _paint_box(axes, box)
    for arc in layout.arcs:
        if arc.label_at is not None:
            _text(axes, *arc.label_at, arc.arc.label, LABEL_SIZE, DELAY if arc.arc.is_delay else FAINT, ground=True)
    contents = io.BytesIO()
    figure.savefig(contents, format="png")
    return contents.getvalue()


def _paint_arc(axes: Any, placed: PlacedArc) -> None:
    from matplotlib.patches import FancyArrowPatch
    from matplotlib.path import Path

    points, codes = [placed.start], [Path.MOVETO]
    for curve in placed.curves:
        points += list(curve)
        codes += [Path.CURVE4] * 3
    colour = DELAY if placed.arc.is_delay else ARC
    axes.add_patch(
        FancyArrowPatch(
            path=Path(points, codes),
            arrowstyle="-|>",
            mutation_scale=9,
            color=colour,
            linewidth=1.2,
            linestyle=(0, (5, 3)) if placed.arc.is_delay else "solid",
            shrinkA=0,
            shrinkB=0,
        )
    )


def _paint_box(axes: Any, placed: PlacedBox) -> None:
    from matplotlib.patches import FancyBboxPatch

    look = colours(placed.box.kind)
    axes.add_patch(
        FancyBboxPatch(
            (placed.x, placed.y),
            placed.width,
            placed.height,
            boxstyle="round,pad=0,rounding_size=5",
            facecolor=look.fill,
            edgecolor=look.stroke,
            linewidth=1.1,
        )
    )
    for number, line in enumerate(placed.box.lines):
        y = placed.y + PADDING_Y + (number + 0.5) * LINE_HEIGHT
        size, colour = (TITLE_SIZE, TEXT) if number == 0 else (TEXT_SIZE, FAINT)
        _text(axes, placed.middle, y, line, size, colour, bold=number == 0)


def _text(
    axes: Any,
    x: float,
    y: float,
    text: str,
    size: int,
    colour: str,
    *,
    bold: bool = False,
    anchor: str = "center",
    ground: bool = False,
) -> None:
    axes.text(
        x,
        y,
        text,
        fontsize=size,
        color=colour,
        weight="bold" if bold else "normal",
        ha=anchor,
        va="center",
        parse_math=False,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5} if ground else None,
    )
