"""Fixtures of the command-line tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.run_command import CONFIG, Cli
from nnet3 import Nnet


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Runs commands in an empty folder that holds `net.config` and `net.raw`."""
    monkeypatch.chdir(tmp_path)
    Path("net.config").write_text(CONFIG)
    Nnet.from_config(CONFIG).save("net.raw")
    return Cli(capsys)
