"""Take the pictures docs/figures/explore_*.png of a page in a headless browser: python -m tools.explorer_figures."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import nnet3
from tests.explore.browser import missing, visit
from tests.explore.models import lstm, request

FIGURES = Path(__file__).resolve().parents[1] / "docs" / "figures"
#: For each picture what is done before it is taken.
STEPS: dict[str, list[list[Any]]] = {
    "network": [["click", ".box:has-text('tdnnf2')"], ["click", "#open"]],
    "time": [["click", "#tab-time"], ["hoverAt", ".frame", 360, 34]],
    "program": [
        ["click", "#tab-program"],
        ["click", ".passes button:has-text('work_in_place')"],
        ["fill", ".program input", "Propagate"],
        ["click", ".program .row.fresh"],
    ],
    "memory": [["click", "#tab-memory"], ["hover", ".arena rect"]],
    "profile": [["click", "#tab-profile"]],
}


def take_pictures() -> None:
    """Take all of them, and one in the dark."""
    nnet = lstm()
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        page.write_text(nnet3.explore.explore(nnet, request(nnet), title="lstm.xconfig"))
        for name, steps in STEPS.items():
            visit(page, [*steps, ["screenshot", str(FIGURES / f"explore_{name}.png")]], width=1100, height=680)
        steps = [*STEPS["program"], ["screenshot", str(FIGURES / "explore_dark.png")]]
        visit(page, steps, width=1100, height=680, dark=True)


if __name__ == "__main__":
    if missing():
        sys.exit(f"not installed: {missing()}")
    take_pictures()
