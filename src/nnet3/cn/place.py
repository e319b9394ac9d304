"""Where in the user's code a node was made."""

from __future__ import annotations

import linecache
import sys
from dataclasses import dataclass
from pathlib import Path

_HERE = str(Path(__file__).parent)


@dataclass(frozen=True)
class Place:
    """A line of a Python file; an unknown one has line 0."""

    file: str = ""
    line: int = 0

    @property
    def text(self) -> str:
        """The source line, without indentation; "" if it cannot be read."""
        return linecache.getline(self.file, self.line).strip() if self.line else ""

    def __str__(self) -> str:
        if not self.line:
            return ""
        text = self.text
        return f"{self.file}:{self.line}" + (f": {text}" if text else "")


def users_place() -> Place:
    """The innermost calling line that lies outside this package: the user's own, even when a macro made the node."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_HERE):
        frame = frame.f_back  # type: ignore[assignment]
    return Place(frame.f_code.co_filename, frame.f_lineno) if frame is not None else Place()
