"""docs/lengths.md does what it says."""

from __future__ import annotations

from tests.docs.doctest_page import run_page


def test_the_page_does_what_it_says() -> None:
    assert run_page("lengths.md") > 20
