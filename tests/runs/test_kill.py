"""A run that is killed a few times, as `make kill` does it by the hundred, ends with the same bits."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.effort import nightly

ROOT = Path(__file__).resolve().parents[2]


@nightly
@pytest.mark.parametrize(("processes", "kills"), [(1, 3), (2, 1)])
def test_kills_change_nothing(tmp_path: Path, programs: Path, processes: int, kills: int) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TMPDIR": str(tmp_path)}
    command = [programs / "python", "-m", "tools.kill_training", "--kills", str(kills), "--seed", "3"]
    command += ["--processes", str(processes)]
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    match = re.search(r"(\d+) kills .* compared bit for bit: all equal", result.stdout)
    assert match is not None
    assert int(match[1]) >= kills


@nightly
def test_one_of_several_processes_is_slow_hangs_or_dies(tmp_path: Path, programs: Path) -> None:
    """All others end with one error, and go on to the same bits."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TMPDIR": str(tmp_path)}
    command = [programs / "python", "-m", "tools.many_processes", "--processes", "3", "--timeout", "10"]
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "3 processes" in result.stdout
    assert "all as it should be" in result.stdout
