"""docs/proofs.md does what it says."""

from __future__ import annotations

from tests.docs.shown_page import run_shown_page


def test_the_page_does_what_it_says() -> None:
    names, shown = run_shown_page("proofs.md")
    assert shown == 1
    assert "program" in names
