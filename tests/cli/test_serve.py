"""`nnet3 serve`: wrong usage."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.asr.small_recognizer import write_recognizer
from tests.cli.run_command import Cli


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["--port=70000", "model"], 2, "Invalid value for '--port'"),
        (["--idle-seconds=0", "model"], 2, "Invalid value for '--idle-seconds'"),
        (["--allow-origin=nowhere", "model"], 2, "Invalid value for '--allow-origin'"),
        (["--sample-rate=44100.5", "model"], 2, "Invalid value for '--sample-rate'"),
        (["--graph=x", "model", "model"], 2, "--graph is for one model"),
        (["--spk-model=nothing", "model"], 1, "a speaker model is a folder with mfcc.conf"),
        (["--port=0", "model", "model"], 1, "two are called model"),
        (["nothing"], 1, "no such model directory"),
        (["--host=nowhere.invalid", "model"], 1, "cannot listen at nowhere.invalid, port 2700: "),
    ],
)
def test_wrong_usage(cli: Cli, tmp_path: Path, arguments: list[str], status: int, message: str) -> None:
    if arguments[-1] == "model":
        write_recognizer(tmp_path / "model")
    outcome = cli("serve", *arguments)
    assert outcome.status == status
    assert message in outcome.err
