"""A whole training run of a 15-layer TDNN-F, examples from disk included: what is spent beside the computer's work.

python -m benchmarks.training [--minibatches 4] [--sequences 64] [--frames 50] [--threads 1] [--small] [--processes 2]

The computer's time is that inside `NnetComputer.run`, forward and backward with natural gradient. All else that a step
takes is the trainer's own cost; both are times of the processor, if one thread computes on it, since other programs may
run on this machine too. What is left of the time from the first minibatch to the last is waiting for examples.

Several processes of torchrun on as many idle cores stand beside one that torchrun has started alone: how much faster
they are by the clock on the wall, and what a process takes of its processor for a step, which other programs disturb
less. As many runs of one process side by side show how much faster the machine lets them be, whatever they exchange.
Equally many steps are looked at, since natural gradient learns at each of the first ten steps, and then at every
fourth. With `--small --minibatches 20` all takes about two minutes.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from benchmarks.tdnnf_network import tdnnf_config
from nnet3 import Nnet, NnetComputer
from nnet3.base.kaldi_io.compressed import compress
from nnet3.base.kaldi_io.sparse import SparseMatrix
from nnet3.examples import EXAMPLES, Example, NnetIo, example_writer
from nnet3.training.runs.data_kinds import KINDS
from nnet3.training.runs.display import Display
from nnet3.training.runs.events import read_events
from nnet3.training.runs.settings_text import read_settings_text
from nnet3.training.runs.train_model import train_model
from nnet3.training.runs.training_run import TrainingRun

SETTINGS = """
[model]
file = "net.config"
[data]
train = "ark:train.ark"
minibatch-size = {sequences}
[training]
epochs = 1
initial-learning-rate = 0.0005
final-learning-rate = 0.0005
device = "{device}"
threads = {threads}
[combination]
models = 0
[checkpoints]
every = 100000
[output]
folder = "{name}"
print-every = 1
curves = false
tensorboard = false
"""


class Watch:
    """When calls of a method began and ended, by the clock on the wall, and what they took by another clock."""

    def __init__(self, owner: type, name: str, clock: Callable[[], float], device: str):
        self.calls: list[tuple[float, float, float]] = []
        original = getattr(owner, name)

        def timed(*arguments: object, **named: object) -> object:
            start, started = time.perf_counter(), clock()
            result = original(*arguments, **named)
            if device.startswith("cuda"):
                torch.cuda.synchronize()
            self.calls.append((start, time.perf_counter(), clock() - started))
            return result

        setattr(owner, name, timed)

    def taken_since(self, moment: float) -> float:
        return sum(taken for start, _, taken in self.calls if start >= moment)

    def passed_since(self, moment: float) -> float:
        return sum(end - start for start, end, _ in self.calls if start >= moment)


def write_examples(path: Path, nnet: Nnet, count: int, frames: int) -> None:
    """Examples of one sequence each: compressed features, a label for each output frame."""
    rng, dim = np.random.default_rng(0), nnet.node_dim("output")
    first, last = -nnet.left_context, frames + nnet.right_context
    with example_writer(f"ark:{path}", EXAMPLES) as writer:
        for number in range(count):
            features = compress(rng.standard_normal((last - first, nnet.node_dim("input"))).astype(np.float32))
            labels = rng.integers(0, dim, frames).astype(np.int32)
            target = SparseMatrix(frames, dim, np.arange(frames + 1), labels, np.ones(frames, np.float32))
            ios = (NnetIo("input", _indexes(first, last), features), NnetIo("output", _indexes(0, frames), target))
            writer.write(f"example-{number}", Example(ios))


def _indexes(first: int, last: int) -> np.ndarray:
    times = np.arange(first, last)
    return np.stack([0 * times, times, 0 * times], axis=1).astype(np.int32)


def run_alone(folder: Path, settings: Path, table: Table, device: str, threads: int) -> None:
    """One process; the first minibatch, in which everything is compiled, does not count."""
    clock = time.thread_time if device == "cpu" and threads == 1 else time.perf_counter
    computer, steps = Watch(NnetComputer, "run", clock, device), Watch(TrainingRun, "_step", clock, device)
    settings_read = KINDS.read(read_settings_text(str(settings)))
    train_model(settings_read, KINDS, display=Display(Console(file=io.StringIO())))
    begin, end, count = steps.calls[1][0], steps.calls[-1][1], len(steps.calls) - 1
    computing, stepping = computer.taken_since(begin), steps.taken_since(begin)
    waiting = (end - begin - steps.passed_since(begin)) / (end - begin)
    table.add_row("computer, per minibatch", f"{computing / count:.4f} s", "")
    table.add_row("trainer's own, of the computer's time", f"{(stepping - computing) / computing:.2%}", "<= 5 %")
    table.add_row("waiting for examples, of all time", f"{waiting:.2%}", "<= 2 %")
    rows = sum(event["frames"] for event in read_events(folder / "alone") if event["event"] == "train") / (count + 1)
    table.add_row("frames per second", f"{rows * count / (end - begin):.1f}", "")


def be_one_of_several(settings: Path, steps: int) -> None:
    """A process of torchrun; writes the seconds, and those of the processor, of so many steps after the first two."""
    moments, original = [], TrainingRun._step

    def step(run: TrainingRun, *arguments: Any) -> Any:
        result = original(run, *arguments)
        moments.append((time.perf_counter(), time.process_time()))
        return result

    TrainingRun._step = step  # type: ignore[method-assign]
    train_model(KINDS.read(read_settings_text(str(settings))), KINDS, display=Display(Console(file=io.StringIO())))
    taken = [last - first for first, last in zip(moments[1], moments[1 + steps], strict=True)]
    settings.with_suffix(f".{os.environ['RANK']}").write_text(json.dumps(taken))


def cost_of_step(runs: Sequence[Path], processes: int, steps: int) -> tuple[float, float]:
    """Seconds of a step, and processor seconds of each process, of runs side by side, each of so many processes.

    `runs`: the settings file of each run.
    """
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    command = [*launch, "-m", "benchmarks.training", "--minibatches", str(steps), "--one-of"]
    started = [
        subprocess.Popen([*command, str(run)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) for run in runs
    ]
    for process in started:
        _, errors = process.communicate()
        if process.returncode:
            raise click.ClickException(errors.decode())
    taken = [json.loads(run.with_suffix(f".{rank}").read_text()) for run in runs for rank in range(processes)]
    seconds, worked = np.mean(taken, axis=0) / steps
    return float(seconds), float(worked)


def run_several(settings: Callable[[str, int], Path], table: Table, processes: int, steps: int) -> None:
    """Processes that train together beside one process, and beside as many that know nothing of each other.

    `settings` writes the settings file of a run, given its name and number of processes.
    """
    click.echo("one process of torchrun ...", err=True)
    alone, worked_alone = cost_of_step([settings("one", 1)], 1, steps)
    click.echo(f"{processes} runs of one process, side by side ...", err=True)
    apart, worked_apart = cost_of_step([settings(f"beside-{number}", 1) for number in range(processes)], 1, steps)
    click.echo(f"{processes} processes of one run ...", err=True)
    together, worked = cost_of_step([settings("together", processes)], processes, steps)
    table.add_row(f"{processes} runs side by side / one, speed: the most", f"{processes * alone / apart:.2f}", "")
    table.add_row("  processor time of a process for a step", f"{worked_apart / worked_alone:.2f}", "")
    wanted = f">= {0.85 * processes:.2f}"
    table.add_row(f"{processes} processes / one, speed", f"{processes * alone / together:.2f}", wanted)
    table.add_row("  processor time of a process for a step", f"{worked / worked_alone:.2f}", "")


@click.command()
@click.option("--minibatches", default=4, show_default=True)
@click.option("--sequences", default=64, show_default=True)
@click.option("--frames", default=50, show_default=True)
@click.option("--threads", default=1, show_default=True)
@click.option("--processes", default=2, show_default=True, help="1: do not measure several.")
@click.option("--device", default="cpu", show_default=True)
@click.option("--small", is_flag=True, help="A network of 256/64 instead of 1536/160.")
@click.option("--one-of", type=click.Path(path_type=Path), hidden=True, help="Be a process that torchrun has started.")
def main(
    minibatches: int, sequences: int, frames: int, threads: int, processes: int, device: str, small: bool,
    one_of: Path | None,
) -> None:  # fmt: skip
    """Print a table."""
    if one_of is not None:
        be_one_of_several(one_of, minibatches)
        return
    table = Table(title=f"training run, {sequences} x {frames} output frames, {threads} threads", box=None)
    for column in ("what", "measured", "wanted"):
        table.add_column(column, justify="left" if column == "what" else "right")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config = tdnnf_config(256, 64, 200) if small else tdnnf_config()
        (folder / "net.config").write_text(config)
        nnet = Nnet.from_config(config)

        def settings(run: str, number: int) -> Path:
            archive = folder / f"of-{number}.ark"
            if not archive.exists():
                write_examples(archive, nnet, (minibatches + 2) * sequences * number, frames)
            text = SETTINGS.format(name=folder / run, sequences=sequences, device=device, threads=threads)
            text = text.replace("train.ark", str(archive)).replace("net.config", f"{folder}/net.config")
            (folder / f"{run}.toml").write_text(text)
            return folder / f"{run}.toml"

        click.echo("a run in this process ...", err=True)
        run_alone(folder, settings("alone", 1), table, device, threads)
        if processes > 1:
            run_several(settings, table, processes, minibatches)
    Console().print(table)


if __name__ == "__main__":
    main()
