"""docs/training.md: its settings file and its command lines work."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.doctest_page import DOCS
from tests.effort import EFFORT

TEXT = (DOCS / "training.md").read_text().partition("\n## The trainer in Python")[0]
ROOT = DOCS.parent


def _blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path, programs: Path) -> Path:
    data = importlib.import_module("tools.kill_training_data")
    (tmp_path / "egs").mkdir()
    data.write_examples(tmp_path / "egs" / "train.ark", 100, 1)
    data.write_examples(tmp_path / "egs" / "valid.ark", 20, 2)
    (tmp_path / "run.toml").write_text(_blocks("toml")[0])
    (xconfig,) = _blocks("xconfig")
    (tmp_path / "net.xconfig").write_text(xconfig)
    (tmp_path / "bin").mkdir()
    for name in ("nnet3", "torchrun"):
        (tmp_path / "bin" / name).symlink_to(programs / name)
    return tmp_path


def _shell(folder: Path, command: str) -> subprocess.CompletedProcess[str]:
    """`nnet3` and torchrun are forked from a process that has PyTorch; what torchrun starts is as users have it."""
    path = f"{folder / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    return subprocess.run(["sh", "-c", command], cwd=folder, env=environment, capture_output=True, text=True)


def test_the_commands_work(folder: Path) -> None:
    run, resume, distributed = _blocks("sh")
    outcome = _shell(folder, run)
    assert outcome.returncode == 0, outcome.stderr
    assert " final step=24 " in outcome.stderr
    found = {path.name for path in (folder / "exp").iterdir()}
    shown = re.findall(r"`([\w.]+)/?`", " ".join(re.findall(r"^\| (`.*?)\|", TEXT, re.MULTILINE)))
    assert found | {"final.mdl"} == set(shown)
    outcome = _shell(folder, resume)
    assert outcome.returncode == 0, outcome.stderr
    if EFFORT == 1:  # by day tests/runs/test_distributed.py has torchrun
        return
    shutil.rmtree(folder / "exp")
    outcome = _shell(folder, distributed)
    assert outcome.returncode == 0, outcome.stderr
    assert " final step=12 " in outcome.stderr


def test_the_mistake_looks_like_that(folder: Path) -> None:
    settings = folder / "run.toml"
    settings.write_text(settings.read_text().replace("initial-learning-rate", "initial-learning-rat"))
    outcome = _shell(folder, "nnet3 train-model run.toml")
    assert outcome.returncode == 1
    (shown,) = _blocks("text")
    assert outcome.stderr == f"nnet3: {shown}"
