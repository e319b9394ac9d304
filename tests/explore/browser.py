"""Opens pages in a headless browser and does there what a person would."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.patience import PATIENCE

DRIVER = Path(__file__).resolve().parents[2] / "tools" / "explorer" / "browse.mjs"
_BROWSERS = ("chromium", "chromium-browser", "google-chrome")
_LOOKS = {"text", "texts", "count", "evaluate"}  # steps that look; all others do something


def missing() -> str:
    """What is not installed of what driving a browser needs, and what installs it; empty if all is there."""
    found = next(filter(None, map(shutil.which, _BROWSERS)), None)
    absent = [] if found else ["chromium"]
    absent += [] if shutil.which("node") else ["node"]
    absent += [] if (DRIVER.parent / "node_modules" / "playwright-core").exists() else ["playwright-core"]
    return f"{', '.join(absent)}: `make explorer` installs what is needed" if absent else ""


@dataclass
class Visit:
    """What the steps that look saw, in order; what the console said; what was asked of any network."""

    found: list[Any]
    errors: list[str]
    requests: list[str]
    milliseconds: int


def visit(page: Path | str, steps: list[list[Any]], **options: Any) -> Visit:
    """Open a page and take these steps, those of tools/explorer/browse.mjs; `options`: dark, width, height."""
    browser = next(filter(None, map(shutil.which, _BROWSERS)))
    url = page.as_uri() if isinstance(page, Path) else page
    task = {"browser": browser, "url": url, "steps": steps, **options}
    command = ["node", str(DRIVER)]
    done = subprocess.run(command, input=json.dumps(task), capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr[-3000:]
    seen = Visit(**json.loads(done.stdout))
    seen.found = [found for (what, *_), found in zip(steps, seen.found, strict=True) if what in _LOOKS]
    return seen
