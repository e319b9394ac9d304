"""Many processes of one run on this machine: what happens to all if one is slow, hangs or dies.

python -m tools.many_processes [--processes 64] [--slow 0.2] [--timeout 30]

All are forked from one process that has loaded PyTorch, so that they share its memory, and meet over the loopback. The
network is tiny, and the run has six steps, with a checkpoint after every second one. A run that a process disturbs is
gone on with afterwards, and must end with the bits of one that nobody has disturbed.
"""

from __future__ import annotations

import gc
import logging
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import click
import torch
from rich.console import Console
from rich.table import Table

from nnet3.errors import LostError
from nnet3.training.runs.checkpoints import Checkpoints
from nnet3.training.runs.training_run import TrainingRun
from tools.kill_training import FAILED, LOST, free_port, run
from tools.kill_training_data import FRAMES, SETTINGS, write_examples

STEPS, STEP = 6, 3  # of a run; after which the disturbance comes
CONFIG = """
input-node name=input dim=5
component name=affine type=AffineComponent input-dim=15 output-dim=3
component name=softmax type=LogSoftmaxComponent dim=3
component-node name=affine component=affine input=Append(Offset(input, -1), input, Offset(input, 1))
component-node name=softmax component=softmax input=affine
output-node name=output input=softmax
"""
STARTING = 300.0  # seconds that all may take to begin, and a run to end, besides what it waits


@dataclass(frozen=True)
class Disturbance:
    """What the last process does: each step takes `slow` seconds longer, or it stops by a signal after STEP steps."""

    slow: float = 0.0
    signal: int = 0

    def take_effect(self) -> None:
        """Disturb the runs of this process."""
        original = TrainingRun._step

        def step(training_run: TrainingRun, *arguments: object) -> object:
            time.sleep(self.slow)
            result = original(training_run, *arguments)  # type: ignore[arg-type]
            if self.signal and training_run.progress.step == STEP:
                os.kill(os.getpid(), self.signal)
            return result

        TrainingRun._step = step  # type: ignore[assignment, method-assign]


@dataclass
class Outcome:
    """How a run ended.

    The seconds it took, and those of processors; the statuses of the processes; what those had to say that lost others;
    the seconds from the disturbance to the end of the last of them; the megabytes of all processes together.
    """

    seconds: float
    processor_seconds: float
    statuses: list[int]
    said: list[str]
    seconds_to_end: float
    megabytes: float

    @property
    def lost(self) -> int:
        return self.statuses.count(LOST)


def write_task(folder: Path, processes: int, timeout: float) -> Path:
    """The settings of a run."""
    write_examples(folder / "train.ark", 2 * STEPS * processes, 1)
    write_examples(folder / "valid.ark", 20, 2)
    (folder / "net.config").write_text(CONFIG)
    text = SETTINGS.format(folder=folder, name="run", more="[combination]\nmodels = 0", **FRAMES)
    text = text.replace("minibatch-size = 8", 'minibatch-size = "1:2"').replace("epochs = 3", "epochs = 1")
    text = text.replace("every = 3", "every = 2")
    settings = folder / "run.toml"
    settings.write_text(f"{text}[distributed]\nmeeting-timeout = {STARTING}\ntimeout = {timeout}\n")
    return settings


def run_together(settings: Path, processes: int, disturbance: Disturbance | None, timeout: float) -> Outcome:
    """One run, or the rest of one. Raises RuntimeError if it does not end in time, or a process fails otherwise."""
    said = settings.parent / "said"
    shutil.rmtree(said, ignore_errors=True)
    said.mkdir()
    port, start, worked, megabytes = free_port(), time.monotonic(), _worked(), 0.0
    children = [_forked(settings, rank, processes, port, disturbance, said) for rank in range(processes)]
    running, statuses, disturbed = dict(enumerate(children)), [0] * processes, 0.0
    while running:
        for rank, child in list(running.items()):
            ended, status = os.waitpid(child, os.WNOHANG | os.WUNTRACED)
            if ended and os.WIFSTOPPED(status):
                disturbed = time.monotonic()
            elif ended:
                del running[rank]
                statuses[rank] = os.waitstatus_to_exitcode(status)
                disturbed = disturbed or (time.monotonic() if statuses[rank] else 0.0)
        if disturbed and list(running) == [processes - 1]:  # the one that hangs
            os.kill(running[processes - 1], signal.SIGKILL)
        if time.monotonic() - start > STARTING + timeout:
            _end(list(running.values()))
            raise RuntimeError(f"processes {', '.join(map(str, running))} have not ended in time")
        if not megabytes and (settings.parent / "run" / "checkpoints").is_dir():
            megabytes = sum(_own_megabytes(child) for child in running.values())
        time.sleep(0.05)
    now = time.monotonic()
    if FAILED in statuses:
        _end([])
        raise RuntimeError("; ".join(path.read_text() for path in said.iterdir()))
    lines = [path.read_text() for path in sorted(said.iterdir())]
    return Outcome(now - start, _worked() - worked, statuses, lines, now - disturbed if disturbed else 0.0, megabytes)


def _end(children: list[int]) -> None:
    for child in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _forked(settings: Path, rank: int, processes: int, port: int, disturbance: Disturbance | None, said: Path) -> int:
    child = os.fork()
    if child == 0:
        world = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": processes, "MASTER_PORT": port}
        os.environ.update({name: str(value) for name, value in world.items()}, MASTER_ADDR="127.0.0.1")
        if disturbance is not None and rank == processes - 1:
            disturbance.take_effect()
        _be_a_process(settings, said / str(rank))
    return child


def _be_a_process(settings: Path, said: Path) -> NoReturn:
    status = FAILED
    try:
        torch.set_num_threads(1)
        logging.disable()
        status = run(settings)
    except LostError as error:
        status = LOST
        said.write_text(str(error))
    except BaseException as error:
        said.write_text(f"{type(error).__name__}: {error}")
    finally:
        os._exit(status)


def _worked() -> float:
    """The seconds of processors that ended processes have taken."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _own_megabytes(process: int) -> float:
    """The memory of a process, of shared pages its part; 0 where the system does not say it."""
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def disturbed_run(settings: Path, processes: int, disturbance: Disturbance, timeout: float) -> tuple[Outcome, int]:
    """A run with one bad process, and the step of the checkpoint that is left of it."""
    outcome = run_together(settings, processes, disturbance, timeout)
    checkpoint = Checkpoints(settings.parent / "run" / "checkpoints", keep=1).latest()
    if checkpoint is None:
        raise RuntimeError("no checkpoint is left")
    for name in ("rank-0", f"rank-{processes - 1}"):
        if checkpoint.has(name):
            checkpoint.parts(name)  # a damaged one is an error
    return outcome, checkpoint.step


def compare(processes: int, slow: float, timeout: float, say: Console) -> list[str]:
    """What is wrong with runs of so many processes of which one is slow, hangs or dies; prints a table."""
    wrong = []
    table = Table(box=None)
    for column in (
        "the last process",
        "seconds",
        "of processors",
        "lost the others",
        "seconds to end",
        "checkpoint",
        "MB of all",
    ):
        table.add_column(column, justify="left" if column == "the last process" else "right")
    cases = {
        "is as the others": Disturbance(),
        f"takes {slow:g} s more for a step": Disturbance(slow=slow),
        f"hangs after step {STEP}": Disturbance(signal=signal.SIGSTOP),
        f"dies after step {STEP}": Disturbance(signal=signal.SIGKILL),
    }
    expected = b""
    with tempfile.TemporaryDirectory() as name:
        settings = write_task(Path(name).resolve(), processes, timeout)
        folder = settings.with_suffix("")
        run(settings)  # alone, so that what a run imports and compiles is there
        shutil.rmtree(folder)
        for what, disturbance in cases.items():
            outcome, step = disturbed_run(settings, processes, disturbance, timeout)
            is_lost = disturbance.signal != 0
            if outcome.lost != (processes - 1 if is_lost else 0):
                wrong.append(f"{what}: {outcome.lost} processes have lost the others: {outcome.statuses}")
            if any("\n" in text or "has lost the others" not in text for text in outcome.said):
                wrong.append(f"{what}: a process said {max(outcome.said, key=len)}")
            if is_lost:
                run_together(settings, processes, None, timeout)
            final = (folder / "final.raw").read_bytes()
            expected = expected or final
            if final != expected:
                wrong.append(f"{what}: the run ended differently")
            times = f"{outcome.seconds:.1f}", f"{outcome.processor_seconds:.1f}"
            end = f"{outcome.seconds_to_end:.1f}" if is_lost else ""
            table.add_row(what, *times, str(outcome.lost), end, str(step), f"{outcome.megabytes:.0f}")
            shutil.rmtree(folder)
    say.print(table)
    return wrong


@click.command()
@click.option("--processes", type=click.IntRange(2), default=64, show_default=True)
@click.option("--slow", default=0.2, show_default=True, help="Seconds that the slow one takes longer for a step.")
@click.option("--timeout", default=30.0, show_default=True, help="[distributed] timeout: how long one waits.")
def main(processes: int, slow: float, timeout: float) -> None:
    """Let one of many processes be slow, hang or die."""
    gc.freeze()
    start = time.monotonic()
    wrong = compare(processes, slow, timeout, Console(width=110))
    print(f"{processes} processes; {time.monotonic() - start:.0f} s; {'; '.join(wrong) or 'all as it should be'}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
