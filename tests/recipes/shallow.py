"""Networks of recipes with fewer layers, whose programs are shorter: by day recipes are trained with these."""

from __future__ import annotations

import re
from pathlib import Path


def shallow(network: Path, folder: Path, without: str = "345") -> Path:
    """Writes an xconfig without the layers tdnnf3, tdnnf4, ... of these numbers to the folder; returns its path."""
    path = folder / network.name
    lines = network.read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if not re.search(f"name=tdnnf[{without}] ", line)))
    return path
