"""Docstrings name what they speak of: few of their words refer to something else, in the package and in each room."""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from tests.wings import WINGS

SOURCES = Path(__file__).parents[1] / "src/nnet3"
ROOMS = [f"{wing}/{room}" for wing, rooms in WINGS.items() for room in rooms or ("",)]
#: Words that stand for a noun said elsewhere.
_REFERRING = frozenset(
    re.findall(
        "[a-z]+",
        "that which those these others other it its they them their such each one ones what whatever whose this there "
        "so both same",
    )
)
_MOST, _MOST_OF_ALL = 0.075, 0.06  # as shares of all words
_EXAMPLE, _CODE, _WORD = re.compile(r">>>.*?(\n\s*\n|\Z)", re.S), re.compile(r"`[^`]*`"), re.compile(r"[a-z']+")


def words_of(text: str) -> list[str]:
    """Returns the words of a docstring without its examples; code is a word."""
    return _WORD.findall(_CODE.sub(" x ", _EXAMPLE.sub(" ", text)).lower())


@cache
def counted(folder: Path) -> Counter[bool]:
    """Returns how many words of the docstrings below a folder refer, True, and how many name, False."""
    found = Counter[bool]()
    for path in folder.iterdir():
        if path.is_dir():
            found += counted(path)
        elif path.suffix == ".py":
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                    found.update(word in _REFERRING for word in words_of(ast.get_docstring(node) or ""))
    return found


@pytest.mark.parametrize("room", ROOMS)
def test_docstrings_of_a_room_name_what_they_speak_of(room: str) -> None:
    count = counted(SOURCES / room)
    assert count[True] <= _MOST * count.total(), f"{count[True] / count.total():.3f} of the words refer to another word"


def test_docstrings_of_the_package_name_what_they_speak_of() -> None:
    count = counted(SOURCES)
    assert count.total() > 100_000
    assert count[True] <= _MOST_OF_ALL * count.total()


def test_words_that_refer_are_counted() -> None:
    assert words_of("Returns what `it` is.\n\n>>> that\n1\n\nThose rows.") == [
        "returns",
        "what",
        "x",
        "is",
        "those",
        "rows",
    ]
