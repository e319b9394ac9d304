"""docs/tutorial.md does what it says."""

from __future__ import annotations

from docs.doctest_page import run_page


def test_every_line_of_the_tutorial() -> None:
    assert run_page("tutorial.md") > 90
