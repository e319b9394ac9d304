"""Two processes of torchrun. All programs are forked from one process, in which PyTorch is loaded already."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from nnet3 import cn
from nnet3.cli import main
from tests.patience import PATIENCE


def torchrun(programs: Path, program: str, *words: str | Path) -> str:
    """Two processes run one of the programs, and begin anew once if one of them ends badly; returns what they said."""
    launch = ["--standalone", "--nproc-per-node=2", "--max-restarts=1", "--no-python"]
    command = [programs / "torchrun", *launch, programs / program, *words]
    result = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stderr


def die_in_training() -> None:
    """Be `nnet3`; the second process is killed after its 14th minibatch."""
    from nnet3.training.runs.training_run import TrainingRun

    _die_after(TrainingRun, "_step", lambda run: run.progress.step == 14)
    main()


def die_at_a_table() -> None:
    """Be `nnet3`; the second process is killed when it has written three matrices."""
    from nnet3.base.kaldi_io.table_writer import TableWriter

    _die_after(TableWriter, "write", lambda table: table.count == 3)
    main()


def train_a_network() -> None:
    """Train a computational network twice, and let each process save it in the folder that is named."""
    net = train_twice()
    np.save(Path(sys.argv[1]) / f"{os.environ['RANK']}.npy", net.parameters()["W"])


def train_twice() -> cn.Network:
    """A network after two runs, the second by natural gradient."""
    random, x, y = np.random.default_rng(1), cn.input("x", 3), cn.input("y", 2)
    net = cn.Network(cn.square_error(cn.parameter("W", (2, 3)) @ cn.batch_norm(x), y), dtype=torch.float64)
    batches = [{"x": random.normal(size=(3, size)), "y": random.normal(size=(2, size))} for size in (9, 4, 1)]
    cn.train(net, batches, momentum=0.5, max_change=0.3)
    cn.train(net, batches, natural_gradient=True, validation=batches, patience=1)
    return net


def _die_after(owner: type, name: str, is_time: Callable[[Any], bool]) -> None:
    original = getattr(owner, name)

    def method(instance: Any, *arguments: Any) -> None:
        original(instance, *arguments)
        if is_time(instance) and os.environ["RANK"] == "1" and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
            os.kill(os.getpid(), signal.SIGKILL)

    setattr(owner, name, method)
