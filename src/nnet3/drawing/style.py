"""How things look: colours by kind, fonts, and how much room a text takes."""

from __future__ import annotations

from dataclasses import dataclass

from nnet3.drawing.graph import Box

TITLE_SIZE, TEXT_SIZE, LABEL_SIZE = 13, 11, 11  # of fonts, in pixels
LINE_HEIGHT = 15
PADDING_X, PADDING_Y = 12, 7
FONT = "DejaVu Sans, Verdana, Arial, sans-serif"


@dataclass(frozen=True)
class Colours:
    fill: str
    stroke: str


KINDS = {
    "input": Colours("#e3f1e1", "#3d8b37"),
    "output": Colours("#fbe3e0", "#b8442f"),
    "trained": Colours("#e4ecfa", "#3a63b0"),
    "function": Colours("#fdf3d8", "#b58a1b"),
    "memory": Colours("#efe4f7", "#7d4ba3"),
    "glue": Colours("#f2f2f2", "#777777"),
    "plain": Colours("#ffffff", "#555555"),
}
TEXT, FAINT, ARC, DELAY = "#222222", "#555555", "#555555", "#a03a8a"

_NARROW, _WIDE = set("ijl.,:;|'!()[] ftrI"), set("mwMW@%—")


def text_width(text: str, size: float, *, bold: bool = False) -> float:
    """Roughly the width in pixels, rather too much than too little."""
    units = sum(0.40 if c in _NARROW else 0.98 if c in _WIDE else 0.72 if c.isupper() else 0.63 for c in text)
    return units * size * (1.10 if bold else 1.0)


def box_size(box: Box) -> tuple[float, float]:
    """Width and height in pixels."""
    widths = [
        text_width(line, TEXT_SIZE if number else TITLE_SIZE, bold=not number) for number, line in enumerate(box.lines)
    ]
    return max(widths, default=0.0) + 2 * PADDING_X, len(box.lines) * LINE_HEIGHT + 2 * PADDING_Y


def colours(kind: str) -> Colours:
    return KINDS.get(kind, KINDS["plain"])
