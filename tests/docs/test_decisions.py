"""docs/decisions: one decision a page, with its question, its answer and what was rejected; all are in the list."""

from __future__ import annotations

import re

import pytest

from tests.docs.doctest_page import DOCS

FOLDER = DOCS / "decisions"
LIST = (FOLDER / "index.md").read_text()
DECISIONS = sorted(page.name for page in FOLDER.glob("*.md") if page.name != "index.md")


@pytest.mark.parametrize("name", DECISIONS)
def test_a_decision_is_a_short_page_of_one_form(name: str) -> None:
    text = (FOLDER / name).read_text()
    parts = re.findall(r"^\*\*(\w+)\.\*\* ", text, re.MULTILINE)
    assert parts in (["Question", "Answer", "Rejected"], ["Question", "Answer", "Figure", "Rejected"])
    assert len(text.splitlines()) <= 40
    title = text.partition("\n")[0].removeprefix("# ")
    assert f"[{title}]({name})" in " ".join(LIST.split())


def test_files_that_decisions_name_are_there() -> None:
    sources = {str(path) for path in (DOCS.parent / "src/nnet3").rglob("*")}
    for name in DECISIONS:
        for file in re.findall(r"`([\w/]+\.(?:py|c))`", (FOLDER / name).read_text()):
            assert any(source.endswith(f"/{file}") for source in sources), f"{name} names {file}"


def test_the_architecture_is_a_page_that_one_reads() -> None:
    assert len((DOCS / "architecture.md").read_text().splitlines()) <= 220
