"""docs/computational_networks.md does what it says."""

from __future__ import annotations

from docs.doctest_page import run_page


def test_every_line_of_the_page() -> None:
    assert run_page("computational_networks.md") > 50
