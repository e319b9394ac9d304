"""Checks the message of a commit: `area: what`, a blank line, a body that says why.

Git's hook commit-msg runs it as `python -m tools.commit_message FILE`; `.pre-commit-config.yaml` declares the hook.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

MOST_CHARACTERS = 72
_SUBJECT = re.compile(r"[\w./*-]+(, [\w./*-]+)*: \S")
_MADE_BY_GIT = ("Merge ", "Revert ", "fixup! ", "squash! ", "amend! ")
_SCISSORS = re.compile(r"^# -+ >8 -+$", re.MULTILINE)  # the diff of `git commit --verbose` follows


def problems(message: str) -> list[str]:
    """Returns the faults of a message, [] for a good one. Comments of Git are no part of the message."""
    text = _SCISSORS.split(message)[0]
    lines = [line.rstrip() for line in text.splitlines() if not line.startswith("#")]
    while lines and not lines[0]:
        del lines[0]
    if not lines:
        return ["the message is empty"]
    subject, *rest = lines
    if subject.startswith(_MADE_BY_GIT):
        return []
    found = []
    if not _SUBJECT.match(subject):
        found.append(f"the subject must be 'area: what', as in 'ir/passes: drop copies', got '{subject}'")
    if len(subject) > MOST_CHARACTERS:
        found.append(f"the subject must have at most {MOST_CHARACTERS} characters, got {len(subject)}")
    if rest and rest[0]:
        found.append(f"the line after the subject must be blank, got '{rest[0]}'")
    if not any(rest[1:]):
        found.append("a body that says why is missing: write it after a blank line")
    return found


def main(path: str) -> int:
    """Prints the faults of the message in a file; returns the exit status."""
    found = problems(Path(path).read_text(encoding="utf-8"))
    for problem in found:
        print(f"{path}: {problem}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
