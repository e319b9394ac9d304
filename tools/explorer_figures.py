"""Take the pictures docs/figures/explore_*.png of a page in a headless browser: python -m tools.explorer_figures."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import nnet3
from tests.explore.browser import missing, visit
from tests.explore.models import lstm, request
from tools.terminal_figures import write_files

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
        run = Path(folder) / "run.html"
        run.write_text(_page_of_a_run(Path(folder)))
        visit(
            run,
            [["hoverAt", ".chart", 400, 60], ["screenshot", str(FIGURES / "explore_run.png")]],
            width=1000,
            height=760,
        )
        steps = [*STEPS["program"], ["screenshot", str(FIGURES / "explore_dark.png")]]
        visit(page, steps, width=1100, height=680, dark=True)


def _page_of_a_run(folder: Path) -> str:
    """The page of a short training run on made-up examples."""
    write_files(folder)
    command = [sys.executable, "-m", "nnet3", "train-model", "run.toml"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return nnet3.explore.run_page(folder / "exp")


if __name__ == "__main__":
    if missing():
        sys.exit(f"not installed: {missing()}")
    take_pictures()
