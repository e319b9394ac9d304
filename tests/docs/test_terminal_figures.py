"""The pictures of terminals: those that are the same each time are up to date, and none loads anything."""

from __future__ import annotations

import re

import pytest

from tools.terminal_figures import COMMANDS, FIGURES, figure


@pytest.mark.parametrize("name", [name for name, (_, is_same) in COMMANDS.items() if is_same])
@pytest.mark.usefixtures("prepared_python")
def test_the_picture_is_what_the_command_prints(name: str) -> None:
    assert _words((FIGURES / f"terminal_{name}.svg").read_text()) == _words(figure(name)), "run `make figures`"


@pytest.mark.parametrize("name", COMMANDS)
def test_the_picture_loads_nothing(name: str) -> None:
    text = (FIGURES / f"terminal_{name}.svg").read_text()
    assert "url(http" not in text
    assert "font-face" not in text
    assert COMMANDS[name][0].split()[1] in " ".join(_words(text))


def _words(svg: str) -> list[str]:
    lines = re.findall(r"<text [^>]*>(.*?)</text>", svg)
    return " ".join(lines).replace("&#160;", " ").split()
