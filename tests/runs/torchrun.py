"""Runs of two processes, started by torchrun."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.patience import PATIENCE
from tests.runs.task import Task

SOURCE = Path(__file__).resolve().parents[2] / "src"
DIES = """
import os, signal
from nnet3.runs import training_run

original = training_run.TrainingRun._step

def step(run, placed):
    original(run, placed)
    if run.progress.step == 14 and os.environ["RANK"] == "1" and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        os.kill(os.getpid(), signal.SIGKILL)

training_run.TrainingRun._step = step
"""


def torchrun(task: Task, tmp_path: Path, *, dies: bool = False) -> str:
    """Two processes, checked to be in step; if one `dies`, it is the second one, once. Returns what they said."""
    task.change(distributed__check="true")
    hook = tmp_path / "hook"
    hook.mkdir(exist_ok=True)
    (hook / "sitecustomize.py").write_text(DIES if dies else "")
    path = f"{hook}:{SOURCE}"
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--max-restarts=1"]
    command = [sys.executable, *launch, "-m", "nnet3", "train-model", "--resume", str(task.settings)]
    result = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stderr
