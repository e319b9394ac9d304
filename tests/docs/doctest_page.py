"""Runs the Python blocks of a Markdown page as one doctest session."""

from __future__ import annotations

import doctest
import io
import re
from pathlib import Path

import numpy as np
import torch

DOCS = Path(__file__).resolve().parents[2] / "docs"
_FENCE = re.compile(r"^```(\w*)$")


def run_page(name: str) -> int:
    """Assert that every `>>>` of the page prints what the page says; returns how many there are."""
    path = DOCS / name
    test = doctest.DocTestParser().get_doctest(_code_of(path.read_text()), {}, name, str(path), 0)
    failures = io.StringIO()
    try:
        with np.printoptions():  # what the page sets stays with the page
            result = doctest.DocTestRunner().run(test, out=failures.write)
    finally:
        torch.set_printoptions(profile="default")
    assert result.failed == 0, failures.getvalue()
    return result.attempted


def _code_of(text: str) -> str:
    """The page with every line outside of Python blocks emptied, so that line numbers stay."""
    lines, inside = [], False
    for line in text.splitlines():
        fence = _FENCE.match(line)
        if fence:
            inside = not inside and fence[1] == "python"
            lines.append("")
        else:
            lines.append(line if inside else "")
    return "\n".join(lines) + "\n"
