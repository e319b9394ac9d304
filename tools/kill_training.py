"""Kills training runs with SIGKILL at random moments, resumes them, and compares how they end, bit for bit.

Each run is a forked child of a process that has imported everything, so that it starts at once; with several processes,
one of them is killed, and the others have to end by themselves. Moments are spread
evenly over the time that a run takes, which is mostly checkpoints; the report says how many kills have interrupted the
writing of one, and how many came after the last minibatch, while the final model was made.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import random
import runpy
import shutil
import signal
import socket
import sys
import tempfile
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

import click
import torch
from rich.console import Console

from nnet3 import cn
from nnet3.errors import LostError
from nnet3.training.runs.checkpoints import Checkpoints
from nnet3.training.runs.data_kinds import KINDS
from nnet3.training.runs.display import Display
from nnet3.training.runs.packing import put_together, same
from nnet3.training.runs.settings_text import read_settings_text
from nnet3.training.runs.train_model import train_model
from tools.kill_network_data import write_network_task
from tools.kill_training_data import write_task, write_tasks_of_processes

FINAL = "final.raw"
BEFORE = "before the first steps"
FAILED, LOST = 99, 98  # statuses of processes
MOST_PROCESSES = 8
PATIENCE = 300.0  # seconds in which all must have noticed that one has gone
MEETING = 10.0  # seconds after which those who wait for one that will never come are stopped, as torchrun does at once


@dataclass
class Report:
    """What was done so far."""

    kills: int = 0
    runs: int = 0
    where: Counter[str] = field(default_factory=Counter)
    different: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        where = ", ".join(f"{count} {place}" for place, count in self.where.most_common())
        end = f"{len(self.different)} ended differently: {', '.join(self.different)}" if self.different else "all equal"
        return f"{self.kills} kills ({where}) of {self.runs} runs, compared bit for bit: {end}"


def run(settings: Path) -> int:
    """A whole run, or the rest of one, in this process: of a settings file, or of a script."""
    with open(os.devnull, "w") as nothing:
        if settings.suffix == ".py":
            with contextlib.redirect_stderr(nothing):
                runpy.run_path(str(settings))
            return 0
        display = Display(Console(file=nothing), is_first=False)
        return train_model(KINDS.read(read_settings_text(str(settings))), KINDS, resume=True, display=display)


def start(settings: Path, processes: int, errors: Path) -> list[int]:
    """Fork the processes of a run; their numbers."""
    port = free_port()
    children = []
    for rank in range(processes):
        child = os.fork()
        if child == 0:
            world = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": processes, "MASTER_PORT": port}
            os.environ.update({name: str(value) for name, value in world.items()}, MASTER_ADDR="127.0.0.1")
            _be_a_process(settings, errors)
        children.append(child)
    return children


def _be_a_process(settings: Path, errors: Path) -> NoReturn:
    status = FAILED
    try:
        torch.set_num_threads(1)
        logging.disable()
        status = run(settings)
    except LostError:
        status = LOST
    except BaseException:
        errors.write_text(traceback.format_exc())
    finally:
        os._exit(status)


def run_in_children(settings: Path, processes: int, victim: int | None, kill_after: float, errors: Path) -> bool:
    """True if all came to the end, False if the victim was killed in time.

    Raises RuntimeError if one fails by itself, or does not notice that another has gone. Who is killed before all have
    met is not missed by the others: they wait for it until they are stopped.
    """
    running = dict(enumerate(start(settings, processes, errors)))
    deadline = None if victim is None else time.monotonic() + kill_after
    was_killed, patience = False, 0.0
    while running:
        for rank, child in list(running.items()):
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                del running[rank]
                _check_end(rank, os.waitstatus_to_exitcode(status), was_killed, errors)
        now = time.monotonic()
        if victim in running and deadline is not None and now >= deadline:
            os.kill(running[victim], signal.SIGKILL)
            os.waitpid(running.pop(victim), 0)  # until it has gone, the folder is still its own
            was_killed, deadline, patience = True, None, now + PATIENCE
        if was_killed and now > patience - PATIENCE + MEETING and place_of_kill(settings.with_suffix("")) == BEFORE:
            for child in running.values():
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
            return False
        if was_killed and now > patience:
            for child in running.values():
                os.kill(child, signal.SIGKILL)
            raise RuntimeError(f"processes {', '.join(map(str, running))} have not noticed that {victim} has gone")
        time.sleep(0.0005)
    return not was_killed


def _check_end(rank: int, status: int, was_killed: bool, errors: Path) -> None:
    if status == FAILED:
        raise RuntimeError(f"process {rank} failed by itself: {errors.read_text()}")
    if status not in (0, LOST if was_killed else 0):
        raise RuntimeError(f"process {rank} ended with status {status}")


def free_port() -> int:
    """Returns a port of the loopback that nobody uses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def place_of_kill(folder: Path) -> str:
    """What the run was doing when it was killed, as far as its files tell."""
    checkpoints, log = folder / "checkpoints", folder / "log.txt"
    if checkpoints.is_dir() and any(path.name.startswith(".") for path in checkpoints.iterdir()):
        return "inside a checkpoint write"
    lines = log.read_text().splitlines() if log.exists() else []
    if not any(" train " in line for line in lines):
        return BEFORE
    is_over = any(f" {event} " in lines[-1] for event in ("trained", "combine"))
    return "while the final model was made" if is_over else "between checkpoints"


def state_at_end(folder: Path) -> object:
    """All that a run has left: the final model, the last checkpoint's states."""
    checkpoint = Checkpoints(folder / "checkpoints", keep=1).latest()
    assert checkpoint is not None
    names = [name for rank in range(MOST_PROCESSES) if checkpoint.has(name := f"rank-{rank}")]
    parts = [checkpoint.parts(name) for name in names]
    own = [put_together(tree, {**parts[0][1], **tensors}) for tree, tensors in parts]  # the first one's, if not theirs
    models = {path.name: path.read_bytes() for path in sorted((folder / "models").glob("*.raw"))}
    finals = [(folder / FINAL).read_bytes()] if (folder / FINAL).exists() else cn.load(folder / "final.cn").parameters()
    return [finals, checkpoint.step, own, models]


def kill_runs(folder: Path, kills: int, seed: int, processes: int, say: bool) -> Report:
    """Kill one process of runs of several kinds, and resume them, until there were so many kills."""
    rng, report = random.Random(seed), Report()
    tasks = write_task(folder) if processes == 1 else write_tasks_of_processes(folder)
    tasks |= write_network_task(folder)
    undisturbed: dict[str, tuple[object, float]] = {}  # how they end, and the seconds that they take
    while report.kills < kills:
        name = rng.choice(sorted(tasks))
        if name not in undisturbed:
            undisturbed[name] = _undisturbed(folder, tasks[name], processes)
        expected, seconds = undisturbed[name]
        while True:
            victim, moment = rng.randrange(processes), rng.uniform(0, seconds)
            if run_in_children(tasks[name], processes, victim, moment, folder / "errors"):
                break
            report.kills += 1
            of = f"process {victim} " if processes > 1 else ""
            report.where[of + place_of_kill(folder / name)] += 1
        report.runs += 1
        if not same(expected, state_at_end(folder / name)):
            report.different.append(f"run {report.runs} ({name})")
        shutil.rmtree(folder / name)
        if say:
            print(f"\r{report}", end="", flush=True)
    return report


def _undisturbed(folder: Path, settings: Path, processes: int) -> tuple[object, float]:
    """How a run ends that nobody kills, twice the same; and the seconds that it takes."""
    ends = []
    start = time.monotonic()
    for _ in range(2):
        run_in_children(settings, processes, None, 0.0, folder / "errors")
        ends.append(state_at_end(settings.with_suffix("")))
        shutil.rmtree(settings.with_suffix(""))
    if not same(*ends):
        raise RuntimeError(f"{settings.stem}: two runs that nobody has disturbed ended differently")
    return ends[0], (time.monotonic() - start) / 2


@click.command()
@click.option("--kills", type=click.IntRange(1), default=300, show_default=True)
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--processes", type=click.IntRange(1, MOST_PROCESSES), default=1, show_default=True)
def main(kills: int, seed: int, processes: int) -> None:
    """Kill training runs and compare how they end with how undisturbed ones end."""
    gc.freeze()
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        report = kill_runs(Path(folder).resolve(), kills, seed, processes, say=sys.stdout.isatty())
    print(f"\r{report}; {time.monotonic() - start:.0f} s")
    sys.exit(1 if report.different else 0)


if __name__ == "__main__":
    main()
