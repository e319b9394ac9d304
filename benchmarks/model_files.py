"""Loading model files beside plain reading of the same numbers: time, and how much memory it takes at its peak.

    python -m benchmarks.model_files [--outputs 7000] [--rounds 3]

A TDNN-F of about 100 MB in binary and one of about 35 MB in text are loaded, each time in a fresh process that has
imported everything. The peer of the binary file is reading it whole and copying its bytes into one float32 array;
torch.load of the same tensors is shown beside. The peer of the text file is splitting it and making one array of the
numbers. Memory is what the process grows by at its peak (mapped files included), as a multiple of the file's size.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import click
import numpy as np
import torch
from rich.console import Console
from rich.table import Table

import nnet3
from benchmarks.tdnnf_network import tdnnf_config


def load_model(path: str) -> object:
    return nnet3.load(path)


def copy_bytes(path: str) -> object:
    contents = Path(path).read_bytes()
    return np.frombuffer(contents, np.float32, len(contents) // 4).copy()


def split_text(path: str) -> object:
    """The numbers between brackets, without a look at what they belong to."""
    return [np.array(part.partition(b"]")[0].split(), np.float32) for part in Path(path).read_bytes().split(b"[")[1:]]


def load_tensors(path: str) -> object:
    return torch.load(path)


WAYS: dict[str, Callable[[str], object]] = {
    function.__name__: function for function in (load_model, copy_bytes, split_text, load_tensors)
}


def memory_kib(field: str) -> int:
    """VmRSS (memory now) or VmHWM (its peak) of this process; Linux only."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(f"{field}:"))
    return int(line.split()[1])


def measure_here(way: str, path: str) -> None:
    """Print seconds and KiB for loading the file once."""
    Path(path).read_bytes()  # into the page cache
    WAYS[way](str(Path(path).parent / "warm" / Path(path).name))
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    before, start = memory_kib("VmRSS"), time.process_time()
    kept = WAYS[way](path)
    seconds = time.process_time() - start
    print(seconds, memory_kib("VmHWM") - before)
    del kept


def measure(way: str, path: Path, rounds: int) -> tuple[float, float]:
    """Median seconds, and the peak of memory as a multiple of the file's size."""
    command = [sys.executable, "-m", "benchmarks.model_files", "--way", way, "--path", str(path)]
    runs = [subprocess.run(command, capture_output=True, text=True, check=True).stdout.split() for _ in range(rounds)]
    seconds, kib = np.median(np.array(runs, float), axis=0)
    return float(seconds), 1024 * float(kib) / path.stat().st_size


def write_files(folder: Path, outputs: int, *, small: bool) -> None:
    """The three forms of one model; a small one only warms up what loads the others."""
    sizes = {"dim": 24, "bottleneck": 8, "num_outputs": 10} if small else {"num_outputs": outputs}
    large = nnet3.Nnet.from_config(tdnnf_config(**sizes))
    large.save(folder / "model.raw")
    tensors = {name: component.parameters() for name, component in large.components.items()}
    torch.save(tensors, folder / "model.pt")
    sizes = sizes if small else {"dim": 384, "bottleneck": 128, "num_outputs": 1000}
    nnet3.Nnet.from_config(tdnnf_config(**sizes)).save(folder / "model.txt", binary=False)


def report(folder: Path, rounds: int) -> Table:
    table = Table(title="Loading model files (page cache warm, one thread, median of fresh processes)")
    for column in ("file", "MB", "way", "CPU seconds", "MB/s", "time / peer", "peak memory / file"):
        table.add_column(column, justify="left" if column in ("file", "way") else "right")
    peer = 1.0
    for name, way, shown in (
        ("model.raw", "copy_bytes", "read and copy (peer)"),
        ("model.raw", "load_model", "nnet3.load"),
        ("model.pt", "load_tensors", "torch.load"),
        ("model.txt", "split_text", "split, numpy.array (peer)"),
        ("model.txt", "load_model", "nnet3.load"),
    ):
        megabytes = (folder / name).stat().st_size / 1e6
        seconds, memory = measure(way, folder / name, rounds)
        peer = seconds if "(peer)" in shown else peer
        numbers = (f"{seconds:.3f}", f"{megabytes / seconds:.0f}", f"{seconds / peer:.2f}", f"{memory:.2f}")
        table.add_row(name, f"{megabytes:.0f}", shown, *numbers)
    return table


@click.command()
@click.option("--outputs", default=7000, show_default=True, help="Outputs of the binary model: sets its size.")
@click.option("--rounds", default=3, show_default=True)
@click.option("--way", type=click.Choice(list(WAYS)), hidden=True)
@click.option("--path", hidden=True)
def main(outputs: int, rounds: int, way: str | None, path: str | None) -> None:
    torch.set_num_threads(1)
    if way and path:
        measure_here(way, path)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "warm").mkdir()
        write_files(folder, outputs, small=False)
        write_files(folder / "warm", outputs, small=True)
        Console(width=120).print(report(folder, rounds))


if __name__ == "__main__":
    main()
