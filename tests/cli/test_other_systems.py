"""Signals, locks and calls that Windows does not have are taken away. No such system was tried."""

from __future__ import annotations

import importlib
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.run_command import CONFIG

# PyTorch is imported first: it brings its own ways for each system.
WINDOWS = """
import os, signal, sys
import torch, torch.distributed, rich.console, rich.progress
for name in ("SIGHUP", "SIGALRM", "setitimer", "ITIMER_REAL", "alarm"):
    delattr(signal, name)
for name in ("fork", "pread", "pwrite", "mkfifo", "getuid"):
    delattr(os, name)
sys.modules["fcntl"] = None
from nnet3.cli import main
main()
"""
Run = Callable[..., "subprocess.CompletedProcess[str]"]
RUN = """
[model]
file = "net.config"
[data]
train = "ark:train.ark"
minibatch-size = 8
[training]
epochs = 1
[output]
folder = "exp"
curves = false
tensorboard = false
"""


@pytest.fixture
def run(new_python: Path, tmp_path: Path) -> Run:
    """Runs `nnet3 ...` in an empty folder."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        command = [new_python, "-c", WINDOWS, *arguments]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done

    return run


def test_models_without_signals_and_forks(run: Run, tmp_path: Path) -> None:
    (tmp_path / "net.config").write_text(CONFIG)
    run("init", "net.config", "net.raw")
    assert "left-context" in run("info", "net.raw").stdout
    run("copy", "--binary=false", "net.raw", "net.txt")
    (tmp_path / "feats.txt").write_text("utt1 [ 1 2 3\n 4 5 6 ]\n")
    run("compute", "net.raw", "ark:feats.txt", "ark,t:out.txt")
    assert (tmp_path / "out.txt").read_text().startswith("utt1 ")


def test_a_run_without_locks(run: Run, tmp_path: Path) -> None:
    data = importlib.import_module("tools.kill_training_data")
    (tmp_path / "net.config").write_text(data.CONFIG)
    (tmp_path / "run.toml").write_text(RUN)
    data.write_examples(tmp_path / "train.ark", 30, 1)
    assert " final step=" in run("train-model", "run.toml").stderr
    run("train-model", "--resume", "run.toml")
