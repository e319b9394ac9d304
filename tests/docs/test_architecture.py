"""The figures of docs/architecture.md are what the compiler gives; its table of rooms names what there is."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

import nnet3
from tests.docs.doctest_page import DOCS
from tests.docs.svg_contents import svg_contents
from tests.wings import WINGS


@pytest.mark.parametrize("name", ["lowering", "family"])
def test_the_figure_is_what_the_tool_draws(name: str) -> None:
    tool = importlib.import_module(f"tools.{name}_figure")
    kept = (tool.FIGURES / f"{name}.svg").read_text()
    assert svg_contents(kept) == svg_contents(tool.figure()), f"run {tool.__name__}"
    assert f"(figures/{name}.svg)" in (DOCS / "architecture.md").read_text()


def test_the_table_of_rooms_is_whole_and_true() -> None:
    rows = re.findall(r"^\| `(\w+)/` \|.*\| (.*) \|$", (DOCS / "architecture.md").read_text(), re.M)
    root = Path(nnet3.__file__).parent
    folders = {room: root / wing / room for wing, rooms in WINGS.items() for room in rooms}
    folders |= {wing: root / wing for wing, rooms in WINGS.items() if not rooms}
    assert {room for room, _ in rows} == folders.keys()
    for room, names in rows:
        text = "\n".join(path.read_text() for path in folders[room].rglob("*.py*") if path.suffix != ".pyc")
        assert [name for name in re.findall(r"`(\w+)`", names) if not re.search(rf"\b{name}\b", text)] == [], room


def test_the_table_of_lowering_names_all_files() -> None:
    text = (DOCS / "architecture.md").read_text()
    table = text[text.index("All files in the order of work") : text.index("Families are made of")]
    named = [name for row in re.findall(r"^\| (`.*?) \|", table, re.M) for name in re.findall(r"`(\w+)`", row)]
    folder = Path(nnet3.__file__).parent / "engine/lowering"
    assert sorted(named) == sorted(path.stem for path in folder.glob("[a-z]*.py"))
