"""Writes what passes make of the programs in `text/` anew: `python -m tests.ir.passes.rewrite`. Then read the diff."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.ir.passes.text_cases import FOLDER, cases, result


def rewritten(path: Path) -> str:
    return "===\n".join(f"{case.before}---\n{result(case)}" for case in cases(path))


def main() -> None:
    if os.environ.get("CI"):
        sys.exit("in CI the files are compared: write them anew at home, and read the difference")
    for path in sorted(FOLDER.glob("*.txt")):
        text = rewritten(path)
        if text != path.read_text():
            path.write_text(text)
            print(path)


if __name__ == "__main__":
    main()
