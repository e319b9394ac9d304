"""The hook of commit messages: good ones pass, each fault is named, and Git runs what the configuration declares."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tools.commit_message import MOST_CHARACTERS, problems

ROOT = Path(__file__).resolve().parents[2]
GOOD = "ir/passes: drop copies that nobody reads\n\nThey cost a third of a short program.\n"
VERBOSE = "# ------------------------ >8 ------------------------\n# Do not touch.\ndiff --git a/x b/x\n"


@pytest.mark.parametrize(
    "message",
    [
        GOOD,
        f"\n{GOOD}# Please enter the commit message\n{VERBOSE}",
        "tests, docs: say why\n\nBecause.",
        f"x: {'y' * (MOST_CHARACTERS - 3)}\n\nAs long as it may be.",
        "Merge branch 'other'",
        'Revert "ir: drop copies"',
        "fixup! ir: drop copies",
    ],
)
def test_a_good_message_passes(message: str) -> None:
    assert problems(message) == []


@pytest.mark.parametrize(
    ("message", "fault"),
    [
        ("# only a comment\n\n", "empty"),
        ("Drop copies\n\nWhy.", "must be 'area: what'"),
        ("ir:drop copies\n\nWhy.", "must be 'area: what'"),
        ("in the room ir: drop copies\n\nWhy.", "must be 'area: what'"),
        ("ir: \n\nWhy.", "must be 'area: what'"),
        (
            f"x: {'y' * (MOST_CHARACTERS - 2)}\n\nWhy.",
            f"at most {MOST_CHARACTERS} characters, got {MOST_CHARACTERS + 1}",
        ),
        ("ir: drop copies\nWhy.\n\nMore.", "must be blank, got 'Why.'"),
        ("ir: drop copies\n", "body"),
        ("ir: drop copies\n\n# a comment\n", "body"),
        (f"ir: drop copies\n\n{VERBOSE}", "body"),
    ],
)
def test_a_fault_is_named(message: str, fault: str) -> None:
    (found,) = problems(message)
    assert fault in found


def test_git_runs_it(tmp_path: Path) -> None:
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    assert "commit-msg" in config["default_install_hook_types"]
    assert config["default_stages"] == ["pre-commit"], "linters do not run on messages"
    (hook,) = [hook for hook in config["repos"][0]["hooks"] if hook.get("stages") == ["commit-msg"]]
    program, *arguments = shlex.split(hook["entry"])
    assert program == ".venv/bin/python"
    for message, status in ((GOOD, 0), ("Drop copies", 1)):
        path = tmp_path / "COMMIT_EDITMSG"
        path.write_text(message)
        done = subprocess.run([sys.executable, *arguments, str(path)], cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == status
        assert done.stderr.count(str(path)) == 2 * status
