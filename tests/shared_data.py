"""Where the shared folder (golden data, seeds, speech) is, and a marker that skips what needs it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

SHARED = Path(os.environ.get("NNET3_SHARED", Path(__file__).resolve().parents[2] / "shared"))
GOLDEN = SHARED / "golden"
needs_shared = pytest.mark.skipif(not GOLDEN.is_dir(), reason=f"the shared folder with golden data is not at {SHARED}")


def golden_cases(folder: str) -> list[Path]:
    """The case folders of one golden set, sorted; empty when the shared folder is absent."""
    root = GOLDEN / folder
    return sorted(path for path in root.iterdir() if path.is_dir()) if root.is_dir() else []
