"""README.md: its Python runs, in a folder with what it speaks of."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
import torch

from tests.docs.doctest_page import DOCS
from tests.shared_data import GOLDEN

README = DOCS.parent / "README.md"


def test_every_block_of_python_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(GOLDEN / "mdl" / "1" / "final.mdl", "final.mdl")
    names = {"features": torch.randn(20, 12, generator=torch.Generator().manual_seed(0))}
    blocks = re.findall(r"^```python\n(.*?)^```$", README.read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 2
    assert "am.compute(features)" in blocks[0]
    for block in blocks:
        exec(compile(block, str(README), "exec"), names)
    torch.testing.assert_close(names["posteriors"].sum(dim=1), torch.ones(20))


def test_it_is_one_screen_and_a_half() -> None:
    assert len(README.read_text().splitlines()) <= 90


def test_its_links_lead_somewhere() -> None:
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", README.read_text())
    assert len(links) > 15
    assert [link for link in links if not (README.parent / link).exists()] == []
