"""docs/options.md says what is declared."""

from __future__ import annotations

import importlib


def test_the_page_is_up_to_date() -> None:
    options_page = importlib.import_module("tools.options_page")
    page = options_page.page()
    assert options_page.PAGE.read_text() == page, "run `make options`"
    assert "| `momentum` | 0.0 | a number >= 0 and &lt; 1 |" in page
    assert "### [objective, kind chain]" in page
    assert "| `clip_norm` | 0.0 |" in page.partition("### NetworkTrainingOptions")[2]
