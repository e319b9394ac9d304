"""The line of the user's code that made a node, for messages."""

from __future__ import annotations

import linecache
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

_HERE = str(Path(__file__).parents[1])  # training goes through other rooms of the package


@dataclass(frozen=True)
class CallPlace:
    """A line of a Python file; an unknown one has line 0. `text` is "" if the file cannot be read."""

    file: str = ""
    line: int = 0
    text: str = ""

    def __str__(self) -> str:
        if not self.line:
            return ""
        return f"{self.file}:{self.line}" + (f": {self.text}" if self.text else "")


def users_place() -> CallPlace:
    """Returns the innermost calling line outside this package: the user's line, even when a macro made the node."""
    frame, _ = _users_frame()
    if frame is None:
        return CallPlace()
    file, line = frame.f_code.co_filename, frame.f_lineno
    # Read now: what is typed at a prompt may be gone later.
    return CallPlace(file, line, linecache.getline(file, line).strip())


def warn_user(message: str) -> None:
    """Warns of something on the innermost calling line outside this package."""
    warnings.warn(message, UserWarning, stacklevel=_users_frame()[1])


def _users_frame() -> tuple[FrameType | None, int]:
    """Returns the innermost frame outside this package, and how far above the caller it is, as `stacklevel` counts."""
    frame, level = sys._getframe(1), 0
    while frame is not None and frame.f_code.co_filename.startswith(_HERE):
        frame, level = frame.f_back, level + 1  # type: ignore[assignment]
    return frame, level + 1
