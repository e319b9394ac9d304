"""CONTRIBUTING.md: its links, the files to begin with and the tests that it names are there."""

from __future__ import annotations

import re

from tests.docs.doctest_page import DOCS

ROOT = DOCS.parent
TEXT = (ROOT / "CONTRIBUTING.md").read_text()


def test_its_links_lead_somewhere() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", TEXT)
    assert len(links) > 10
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_ten_files_to_begin_with_are_there() -> None:
    files = re.findall(r"^\| `(\S+\.py)` \|", TEXT, re.MULTILINE)
    assert len(files) == 10
    assert [file for file in files if not (ROOT / "src/nnet3" / file).exists()] == []


def test_what_it_names_is_there() -> None:
    named = re.findall(r"[ `](?:tests|tools|src|docs)/[\w./]+", TEXT)
    assert len(named) > 12
    assert [path for path in named if not (ROOT / path.strip(" `")).exists()] == []


def test_each_page_on_writing_is_named() -> None:
    pages = {page.name for page in DOCS.glob("writing_*.md")}
    assert set(re.findall(r"docs/(writing_\w+\.md)\)", TEXT)) == pages
