"""One small bug: a range of a file's text and what stands there instead."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from hashlib import sha256


@dataclass(frozen=True)
class Mutant:
    """`path` is relative to the root of the repository; `start` and `end` are offsets into `text`; lines start at 1."""

    path: str
    text: str  # of the whole file
    start: int
    end: int
    replacement: str
    kind: str
    line: int
    last_line: int
    scope: tuple[int, int]  # lines of the innermost function or class round it, or of the file

    @property
    def mutated(self) -> str:
        return self.text[: self.start] + self.replacement + self.text[self.end :]

    @property
    def change(self) -> tuple[str, str]:
        """The lines before and after, without indentation, comments kept: names the mutant when line numbers change."""
        first = self.text.rfind("\n", 0, self.start) + 1
        last = self.text.find("\n", self.end)
        last = len(self.text) if last < 0 else last
        before = self.text[first:last]
        after = self.text[first : self.start] + self.replacement + self.text[self.end : last]
        return squeeze(before), squeeze(after)

    @property
    def name(self) -> str:
        """A short name that other changes of the file leave as it is, unless the same line occurs twice."""
        occurrence = self.text.count(self.text[self.start : self.end], 0, self.start)
        key = f"{self.path}\n{self.change[0]}\n{self.change[1]}\n{self.scope_text}\n{occurrence}"
        return sha256(key.encode()).hexdigest()[:12]

    @property
    def scope_text(self) -> str:
        lines = self.text.splitlines()
        return lines[self.scope[0] - 1].strip() if lines else ""

    @property
    def compiles(self) -> bool:
        try:
            compile(self.mutated, self.path, "exec")
        except (SyntaxError, ValueError):
            return False
        return True

    def shown(self) -> str:
        before, after = self.change
        return f"{self.path}:{self.line} ({self.kind})\n  - {before}\n  + {after}"


def squeeze(text: str) -> str:
    return " ".join(text.split())


def moved_lines(old: str, new: str) -> dict[int, int]:
    """From the lines of a new text to the equal ones of an old text, from 1."""
    if old == new:
        return {line: line for line in range(1, len(new.splitlines()) + 1)}
    blocks = difflib.SequenceMatcher(None, old.splitlines(), new.splitlines(), autojunk=False).get_matching_blocks()
    return {block.b + k + 1: block.a + k + 1 for block in blocks for k in range(block.size)}
