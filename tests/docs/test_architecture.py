"""The figures of docs/architecture.md are what the compiler gives."""

from __future__ import annotations

import importlib

import pytest

from tests.docs.doctest_page import DOCS
from tests.docs.svg_contents import svg_contents


@pytest.mark.parametrize("name", ["lowering", "family"])
def test_the_figure_is_what_the_tool_draws(name: str) -> None:
    tool = importlib.import_module(f"tools.{name}_figure")
    kept = (tool.FIGURES / f"{name}.svg").read_text()
    assert svg_contents(kept) == svg_contents(tool.figure()), f"run {tool.__name__}"
    assert f"(figures/{name}.svg)" in (DOCS / "architecture.md").read_text()
