"""docs/computational_networks.md does what it says."""

from __future__ import annotations

import importlib

from tests.docs.doctest_page import run_page
from tests.docs.svg_contents import svg_contents


def test_every_line_of_the_page() -> None:
    assert run_page("computational_networks.md") > 50


def test_the_figures_are_what_the_tool_draws() -> None:
    figures = importlib.import_module("tools.computational_network_figures")
    for name, draw in figures.ALL.items():
        kept, drawn = (figures.FIGURES / f"{name}.svg").read_text(), draw()
        assert svg_contents(kept) == svg_contents(drawn), f"run tools/{figures.__name__}.py"
