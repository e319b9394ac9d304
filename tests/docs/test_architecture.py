"""The figure of docs/architecture.md is what the stages of lowering give."""

from __future__ import annotations

import importlib

from tests.docs.doctest_page import DOCS
from tests.docs.svg_contents import svg_contents


def test_the_figure_is_what_the_tool_draws() -> None:
    tool = importlib.import_module("tools.lowering_figure")
    kept = (tool.FIGURES / "lowering.svg").read_text()
    assert svg_contents(kept) == svg_contents(tool.figure()), f"run {tool.__name__}"
    assert "(figures/lowering.svg)" in (DOCS / "architecture.md").read_text()
