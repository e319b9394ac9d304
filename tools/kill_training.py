"""Kills training runs with SIGKILL at random moments, resumes them, and compares how they end, bit for bit.

Each run is a forked child of a process that has imported everything, so that it starts at once. Moments are spread
evenly over the time that a run takes, which is mostly checkpoints; the report says how many kills have interrupted the
writing of one, and how many came after the last minibatch, while the final model was made.
"""

from __future__ import annotations

import gc
import logging
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import click
import torch
from kill_training_data import write_task
from rich.console import Console

from nnet3.train.run.checkpoints import Checkpoints
from nnet3.train.run.display import Display
from nnet3.train.run.kinds import KINDS
from nnet3.train.run.packing import put_together, same
from nnet3.train.run.settings_text import read_settings_text
from nnet3.train.run.train_model import train_model

FINAL = "final.raw"


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
    """A whole run, or the rest of one, in this process."""
    with open(os.devnull, "w") as nothing:
        display = Display(Console(file=nothing), is_first=False)
        return train_model(KINDS.read(read_settings_text(str(settings))), KINDS, resume=True, display=display)


def run_in_child(settings: Path, kill_after: float | None, errors: Path) -> bool:
    """Fork; True if the child came to the end, False if it was killed. Raises RuntimeError if it failed by itself."""
    child = os.fork()
    if child == 0:
        status = 99
        try:
            torch.set_num_threads(1)
            logging.disable()
            status = run(settings)
        except BaseException:
            errors.write_text(traceback.format_exc())
        finally:
            os._exit(status)
    deadline = None if kill_after is None else time.monotonic() + kill_after
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            if os.waitstatus_to_exitcode(status) != 0:
                raise RuntimeError(f"the run failed by itself: {errors.read_text()}")
            return True
        if deadline is not None and time.monotonic() >= deadline:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return False
        time.sleep(0.0005)


def place_of_kill(folder: Path) -> str:
    """What the run was doing when it was killed, as far as its files tell."""
    checkpoints, log = folder / "checkpoints", folder / "log.txt"
    if checkpoints.is_dir() and any(path.name.startswith(".") for path in checkpoints.iterdir()):
        return "inside a checkpoint write"
    lines = log.read_text().splitlines() if log.exists() else []
    if not any(" train " in line for line in lines):
        return "before the first steps"
    is_over = any(f" {event} " in lines[-1] for event in ("trained", "combine"))
    return "while the final model was made" if is_over else "between checkpoints"


def state_at_end(folder: Path) -> object:
    """All that a run has left: the final model, the last checkpoint's states."""
    checkpoint = Checkpoints(folder / "checkpoints", keep=1).latest()
    assert checkpoint is not None
    own = put_together(*checkpoint.parts("rank-0"))
    models = {path.name: path.read_bytes() for path in sorted((folder / "models").glob("*.raw"))}
    return [(folder / FINAL).read_bytes(), checkpoint.step, own, models]


def kill_runs(folder: Path, kills: int, seed: int, say: bool) -> Report:
    """Kill and resume runs of several kinds in turn until there were so many kills."""
    rng, report, tasks = random.Random(seed), Report(), write_task(folder)
    expected, seconds = {}, {}
    for name, settings in tasks.items():
        start = time.monotonic()
        run_in_child(settings, None, folder / "errors")
        seconds[name] = time.monotonic() - start
        expected[name] = state_at_end(folder / name)
        if not same(expected[name], _again(folder, settings, name)):
            raise RuntimeError(f"{name}: two runs that nobody has disturbed ended differently")
    while report.kills < kills:
        name = rng.choice(sorted(tasks))
        shutil.rmtree(folder / name)
        while not run_in_child(tasks[name], rng.uniform(0, seconds[name]), folder / "errors"):
            report.kills += 1
            report.where[place_of_kill(folder / name)] += 1
        report.runs += 1
        if not same(expected[name], state_at_end(folder / name)):
            report.different.append(f"run {report.runs} ({name})")
        if say:
            print(f"\r{report}", end="", flush=True)
    return report


def _again(folder: Path, settings: Path, name: str) -> object:
    shutil.rmtree(folder / name)
    run_in_child(settings, None, folder / "errors")
    return state_at_end(folder / name)


@click.command()
@click.option("--kills", type=click.IntRange(1), default=300, show_default=True)
@click.option("--seed", type=int, default=0, show_default=True)
def main(kills: int, seed: int) -> None:
    """Kill training runs and compare how they end with how undisturbed ones end."""
    gc.freeze()
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        report = kill_runs(Path(folder).resolve(), kills, seed, say=sys.stdout.isatty())
    print(f"\r{report}; {time.monotonic() - start:.0f} s")
    sys.exit(1 if report.different else 0)


if __name__ == "__main__":
    main()
