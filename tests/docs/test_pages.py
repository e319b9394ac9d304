"""Pages whose Python is run: what they print is what they say."""

from __future__ import annotations

import pytest

from tests.docs.doctest_page import run_page


@pytest.mark.parametrize(
    ("page", "least"),
    [
        ("config_language.md", 7),
        ("pytorch_users.md", 15),
        ("chain.md", 1),
        ("discriminative.md", 1),
        ("cntk_users.md", 7),
        ("pronunciation.md", 8),
        ("xvectors.md", 7),
        ("streams.md", 15),
        ("recognizer.md", 6),
        ("precision.md", 5),
        ("rnnlm.md", 12),
    ],
)
def test_the_page_does_what_it_says(page: str, least: int) -> None:
    assert run_page(page) >= least
