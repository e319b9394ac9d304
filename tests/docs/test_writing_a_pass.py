"""docs/writing_a_pass.md does what it says."""

from __future__ import annotations

from tests.docs.shown_page import run_shown_page


def test_the_page_does_what_it_says() -> None:
    names, shown = run_shown_page("writing_a_pass.md")
    assert shown == 6
    assert "drop_unread_copies" in names
