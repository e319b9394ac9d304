"""Golden data that Kaldi itself made: the whole of them in the shared folder, or the small set of the repository."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

SHARED = Path(os.environ.get("NNET3_SHARED", Path(__file__).resolve().parents[2] / "shared"))
SMALL_SET = Path(__file__).parent / "golden"
IS_WHOLE = (SHARED / "golden").is_dir()
#: The folder in use: the shared one where it is there.
GOLDEN = SHARED / "golden" if IS_WHOLE else SMALL_SET

needs_shared = pytest.mark.skipif(not IS_WHOLE, reason=f"the shared folder with all golden data is not at {SHARED}")


def golden_cases(name: str, *files: str) -> list[Path]:
    """Returns the case folders of one golden set, sorted.

    A case of the whole set has all files. One of the small set may be a part, and counts where it has these files.
    """
    root = GOLDEN / name
    cases = sorted(path for path in root.iterdir() if path.is_dir()) if root.is_dir() else []
    return [case for case in cases if IS_WHOLE or all((case / file).exists() for file in files)]
