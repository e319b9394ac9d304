"""Tests of passes as text: a small program, `---`, and what a pass makes of it.

Files are in `text/`, named by the pass: `dead_code.txt`, `dead_code_updates.txt`. Cases are apart by `===`, and each
begins with a comment that says what it shows. The second program leaves out the lines above its commands that stand in
the first; it is the one word `unchanged` where the pass has nothing to do. `python -m tests.ir.passes.rewrite` writes
the second programs anew.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from nnet3.engine.ir.parser import parse_computation
from nnet3.engine.ir.passes.pipeline import PIPELINE, Pass

FOLDER = Path(__file__).parent / "text"
UNCHANGED = "unchanged"


class Case(NamedTuple):
    """One program and what becomes of it; `line` is its first line in the file."""

    path: Path
    line: int
    before: str
    after: str

    @property
    def name(self) -> str:
        title = self.before.split("\n", 1)[0].removeprefix("# ").rstrip(".:")
        return f"{self.path.stem}: {title}"

    @property
    def step(self) -> Pass:
        """The pass after which the file is named."""
        stem = self.path.stem
        return next(p for p in PIPELINE if stem == p.name or stem.startswith(f"{p.name}_"))


def cases(path: Path) -> list[Case]:
    found, line = [], 1
    for text in path.read_text().split("===\n"):
        before, mark, after = text.partition("---\n")
        assert mark, f"{path}:{line}: a case is two programs with '---' between them"
        assert before.startswith("# "), f"{path}:{line}: a case begins with a comment that says what it shows"
        found.append(Case(path, line, before, after))
        line += text.count("\n") + 1
    return found


def all_cases() -> list[Case]:
    return [case for path in sorted(FOLDER.glob("*.txt")) for case in cases(path)]


def result(case: Case) -> str:
    """What the pass makes of the first program, as the file has it."""
    before = parse_computation("\n" * (case.line - 1) + case.before, str(case.path))
    after = case.step.function(before)
    if after is before:
        return UNCHANGED + "\n"
    known = {line.strip() for line in case.before.splitlines()}
    lines = after.text(full=True).splitlines()
    count = len(lines) - len(after.commands)
    new = [line for line in lines[:count] if line not in known]
    return "\n".join([*new, *lines[count:], ""])
