"""Runs docs/writing_a_pass.md: its Python blocks in order, each against the text block that follows it."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "writing_a_pass.md"
BLOCK = re.compile(r"^```(python|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_page_does_what_it_says() -> None:
    blocks = BLOCK.findall(PAGE.read_text())
    names: dict[str, object] = {}
    printed = ""
    shown = 0
    for kind, content in blocks:
        if kind == "text":
            assert printed == content
            shown += 1
            continue
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            exec(compile(content, str(PAGE), "exec"), names)
        printed = output.getvalue()
    assert shown == 6
    assert "drop_unread_copies" in names
