"""Style: colours by kind, fonts, and the approximate size of a box."""

from __future__ import annotations

from dataclasses import dataclass

from nnet3.drawing.graph import Box

TITLE_SIZE, TEXT_SIZE, LABEL_SIZE = 13, 11, 11  # of fonts, in points
FONT = "DejaVu Sans,Verdana,Arial,sans-serif"


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


def box_size(box: Box) -> tuple[float, float]:
    """Returns about the width and height in points, rather too much than too little."""
    widths = [0.75 * len(line) * (TEXT_SIZE if number else TITLE_SIZE) for number, line in enumerate(box.lines)]
    return max(widths, default=0.0) + 16, len(box.lines) * 15.0 + 14


def colours(kind: str) -> Colours:
    return KINDS.get(kind, KINDS["plain"])
