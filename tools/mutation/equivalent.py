"""Mutants that no test can catch, each with the reason: `equivalent.txt` beside this file.

An entry is the path, the line before and after, and the reason; entries are parted by empty lines:

    src/nnet3/base/text/suggest.py
    - if distance < best:
    + if distance <= best:
    of equally good suggestions any will do
"""

from __future__ import annotations

from pathlib import Path

from tools.mutation.mutant import Mutant, squeeze

FILE = Path(__file__).with_name("equivalent.txt")


def read_equivalents(path: Path = FILE) -> dict[tuple[str, str, str], str]:
    """From path, line before and line after to the reason."""
    found = {}
    for entry in path.read_text(encoding="utf-8").split("\n\n"):
        lines = [line for line in entry.splitlines() if line.strip() and not line.startswith("#")]
        if not lines:
            continue
        if len(lines) < 4 or not lines[1].startswith("- ") or not lines[2].startswith("+ "):
            raise SystemExit(f"{path}: path, '- before', '+ after' and a reason are expected, got\n{entry}")
        found[lines[0].strip(), squeeze(lines[1][2:]), squeeze(lines[2][2:])] = " ".join(lines[3:])
    return found


def is_equivalent(mutant: Mutant, equivalents: dict[tuple[str, str, str], str]) -> bool:
    return (mutant.path, *mutant.change) in equivalents
