"""Runs the Python blocks of a Markdown page in order: plain code as it is, `>>>` lines with what they must print."""

from __future__ import annotations

import doctest
import io
import re
from pathlib import Path

import numpy as np
import torch

DOCS = Path(__file__).resolve().parents[2] / "docs"
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def run_page(name: str, *, heading: str = "") -> int:
    """Assert that every `>>>` of the page, or from a heading on, prints what it says; returns how many there are."""
    path = DOCS / name
    text = path.read_text()
    begin = text.index(heading)
    names: dict[str, object] = {"__name__": "__main__"}
    parser, runner, failures = doctest.DocTestParser(), doctest.DocTestRunner(), io.StringIO()
    try:
        with np.printoptions():  # what the page sets stays with the page
            for block in _BLOCK.finditer(text, begin):
                line = text.count("\n", 0, block.start(1))
                if not block[1].startswith(">>>"):
                    exec(compile("\n" * line + block[1], str(path), "exec", dont_inherit=True), names)
                    continue
                test = parser.get_doctest(block[1], names, name, str(path), line)
                runner.run(test, out=failures.write, clear_globs=False)
                names.update(test.globs)
    finally:
        torch.set_printoptions(profile="default")
    assert runner.failures == 0, failures.getvalue()
    return runner.tries
