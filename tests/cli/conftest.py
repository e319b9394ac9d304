"""Fixtures of the command-line tests."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from nnet3 import Nnet
from tests.cli.run_command import CONFIG, IVECTOR_CONFIG, Cli, Shell
from tests.shared_data import GOLDEN


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Runs commands in an empty folder that holds `net.config` and `net.raw`."""
    monkeypatch.chdir(tmp_path)
    Path("net.config").write_text(CONFIG)
    Nnet.from_config(CONFIG).save("net.raw")
    return Cli(capsys)


@pytest.fixture
def shell(cli: Cli, programs: Path, tmp_path: Path) -> Shell:
    """Runs a script of bash in a folder with networks, the programs on its path as installation would put them."""
    Nnet.from_config(IVECTOR_CONFIG).save("ivector.raw")
    model = GOLDEN / "mdl" / "1" / "final.mdl"
    path = f"{programs}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "dir": str(tmp_path), "mdl": str(model)}

    def run(script: str) -> subprocess.CompletedProcess[str]:
        script = f"set -euo pipefail\n{script}"
        return subprocess.run(["bash", "-c", script], capture_output=True, text=True, env=environment, cwd=tmp_path)

    return run
