"""The site: every page has its place, docstrings become what they are, and it builds without a warning."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.doctest_page import DOCS

ROOT = DOCS.parent


PAGES = sorted(page for page in DOCS.rglob("*.md") if page.parent != DOCS / "site")


def _anchors(page: Path) -> set[str]:
    """Returns the anchors that headings of a page have on the site."""
    headings = [
        heading.lower().replace(" ", "-") for heading in re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    ]
    return {re.sub(r"[^\w-]", dot, heading) for heading in headings for dot in ("", "-")}


def test_every_page_stands_in_one_table_of_contents() -> None:
    entries = []
    for page in PAGES:
        for tree in re.findall(r"```\{toctree\}\n(.*?)```", page.read_text(), re.DOTALL):
            entries += [page.parent / f"{line}.md" for line in tree.splitlines() if line and not line.startswith(":")]
    assert sorted(entries) == [page for page in PAGES if page != DOCS / "index.md"]


def test_links_between_pages_lead_somewhere() -> None:
    wrong, links = [], 0
    for page in PAGES:
        for target, anchor in re.findall(r"\]\((?!https?:)([\w./-]*)(?:#([\w-]+))?\)", page.read_text()):
            links += 1
            path = (page.parent / target).resolve() if target else page
            if not path.exists() or (anchor and path.suffix == ".md" and anchor not in _anchors(path)):
                wrong.append(f"{page.name}: {target}#{anchor}")
    assert links > 150
    assert wrong == []


def test_the_first_page_is_short() -> None:
    before = (DOCS / "index.md").read_text().partition("```{toctree}")[0]
    assert len(before.splitlines()) < 25


def test_the_page_of_verbs_is_up_to_date() -> None:
    verbs_page = importlib.import_module("tools.verbs_page")
    assert verbs_page.PAGE.read_text() == verbs_page.page(), "run `make verbs`"


@pytest.mark.skipif(importlib.util.find_spec("sphinx") is None, reason="sphinx is not installed: pip install '.[docs]'")
def test_it_builds_without_a_warning(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", str(DOCS), str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "api.html").read_text()
    assert 'id="nnet3.compile"' in page
    assert "family.at(frames=1234, sequences=64)" in re.sub("<[^>]*>", "", page), "examples of docstrings are there"
    assert 'id="transcribe-verb"' in (tmp_path / "verbs.html").read_text()
    assert (tmp_path / "searchindex.js").exists()
