"""A docstring's first sentence is subject, verb, object: it begins with no preposition and no question word."""

from __future__ import annotations

import ast
from pathlib import Path

SOURCES = Path(__file__).parents[1] / "src/nnet3"
_QUESTIONS = {"How", "That", "What", "When", "Where", "Whether", "Which", "Who", "Whose", "Why"}
_PREPOSITIONS = {"As", "At", "Behind", "By", "For", "From", "If", "In", "Of", "On", "To", "With", "Within"}
#: Docstrings that are words of the command line: the help of verbs, and the headings of a settings file.
_SHOWN = ("cli/verbs/", "runs/sections.py")


def test_docstrings_begin_with_what_they_are_about() -> None:
    found, wrong = 0, []
    for path in sorted(SOURCES.rglob("*.py")):
        place = path.relative_to(SOURCES).as_posix()
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) or place.startswith(_SHOWN):
                continue
            words = (ast.get_docstring(node) or "").split()
            found += bool(words)
            if words and words[0] in _QUESTIONS | _PREPOSITIONS:
                wrong.append(f"{place}:{getattr(node, 'lineno', 1)}: {' '.join(words[:8])}")
    assert found > 3000
    assert not wrong
