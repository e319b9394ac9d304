"""Golden data of language models, rescored lattices and big models (the README there says how close to agree)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.shared_data import SHARED

RESCORING = SHARED / "rescoring"
needs_rescoring = pytest.mark.skipif(not RESCORING.is_dir(), reason=f"there is no golden data at {RESCORING}")


def rescoring_cases(name: str) -> list[Path]:
    """Returns the case folders of one set, sorted; none where the shared folder is absent."""
    root = RESCORING / name
    return sorted(path for path in root.iterdir() if path.is_dir()) if root.is_dir() else []


RNNLM_CASES, VOSK_CASES = rescoring_cases("rnnlm"), rescoring_cases("vosk")
