"""Runs the Python blocks of a Markdown page in order: each must print the text block that follows it."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"
BLOCK = re.compile(r"^```(python|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def run_shown_page(name: str) -> tuple[dict[str, object], int]:
    """The names that the page has defined, and how many text blocks were compared."""
    names: dict[str, object] = {"__name__": name}
    printed, shown = "", 0
    for kind, content in BLOCK.findall((DOCS / name).read_text()):
        if kind == "text":
            assert printed == content
            shown += 1
            continue
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            exec(compile(content, str(DOCS / name), "exec", dont_inherit=True), names)
        printed = output.getvalue()
    return names, shown
