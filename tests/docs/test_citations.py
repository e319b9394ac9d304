"""What docstrings and comments refer to is there for a reader of this repository."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("base/kaldi_io", "model/components", "training/train", "inference")
_PAGE = re.compile(r"[\w/.]*\w+\.md\b(?:, ([a-z][a-z0-9 -]*))?")


@pytest.mark.parametrize("room", ROOMS)
def test_pages_and_sections_that_are_cited_exist(room: str) -> None:
    files = sorted((ROOT / "src" / "nnet3" / room).rglob("*.py"))
    assert files
    wrong = []
    for path in files:
        for match in _PAGE.finditer(path.read_text()):
            page = ROOT / match.group().partition(",")[0]
            headings = re.findall(r"^#+ (.*)", page.read_text().lower(), re.MULTILINE) if page.exists() else []
            if not page.exists() or (match.group(1) and match.group(1).strip() not in headings):
                wrong.append(f"{path.name}: {match.group()}")
    assert not wrong
