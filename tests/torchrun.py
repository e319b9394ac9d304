"""Two processes of torchrun. All programs are forked from one process, in which PyTorch is loaded already."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nnet3.cli import main
from tests.patience import PATIENCE

#: The names of programs, and what they run.
PROGRAMS = {
    "torchrun": "torch.distributed.run:main",
    "nnet3-dying-in-training": "tests.torchrun:die_in_training",
    "nnet3-dying-at-a-table": "tests.torchrun:die_at_a_table",
}


def torchrun(programs: Path, program: str, *words: str | Path) -> str:
    """Two processes run one of the programs, and begin anew once if one of them ends badly; returns what they said."""
    launch = ["--standalone", "--nproc-per-node=2", "--max-restarts=1", "--no-python"]
    command = [programs / "torchrun", *launch, programs / program, *words]
    result = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stderr


def die_in_training() -> None:
    """Be `nnet3`; the second process is killed after its 14th minibatch."""
    from nnet3.runs.training_run import TrainingRun

    _die_after(TrainingRun, "_step", lambda run: run.progress.step == 14)
    main()


def die_at_a_table() -> None:
    """Be `nnet3`; the second process is killed when it has written three matrices."""
    from nnet3.kaldi_io.table_writer import TableWriter

    _die_after(TableWriter, "write", lambda table: table.count == 3)
    main()


def _die_after(owner: type, name: str, is_time: Callable[[Any], bool]) -> None:
    original = getattr(owner, name)

    def method(instance: Any, *arguments: Any) -> None:
        original(instance, *arguments)
        if is_time(instance) and os.environ["RANK"] == "1" and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
            os.kill(os.getpid(), signal.SIGKILL)

    setattr(owner, name, method)
