"""Which tests are tried first."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.mutation.trial import mirror_of

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("path", "mirror", "room"),
    [
        ("speech/speaker/plda.py", "tests/speaker/test_plda.py", "tests/speaker/"),
        ("engine/ir/passes/dead_code.py", "tests/ir/passes/test_text.py", "tests/ir/"),
        ("cli/run.py", "tests/cli/test_run.py", "tests/cli/"),
    ],
)
def test_tests_of_the_same_name_come_first(path: str, mirror: str, room: str) -> None:
    """Rooms lie in wings, their tests do not."""
    assert mirror_of(f"src/nnet3/{path}") == (mirror, room)
    assert (ROOT / "src/nnet3" / path).is_file()
    assert (ROOT / mirror).is_file()
