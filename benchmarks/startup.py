"""How soon the command answers, as a multiple of what Python and PyTorch take to be there.

    python -m benchmarks.startup [--rounds 5]

Processor time of whole processes, the least of several rounds, in which the ways take turns. The peer of help and wrong
usage is a Python that does nothing; the peer of verbs that work is one that imports PyTorch. Nothing is asserted.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

import nnet3

CONFIG = """
input-node name=input dim=3
component name=affine type=AffineComponent input-dim=3 output-dim=4
component-node name=affine component=affine input=input
output-node name=output input=affine
"""
FEATURES = "utt1 [ 1 2 3 ]\n"
PYTHON = "python -c pass"
TORCH = "python -c 'import torch'"
COMMANDS = {PYTHON: ["-c", "pass"], TORCH: ["-c", "import torch"]}
# What is measured, and beside what.
WAYS = {
    "--help": PYTHON,
    "copy --help": PYTHON,
    "copy --bogus": PYTHON,
    "info net.raw": TORCH,
    "copy net.raw out.raw": TORCH,
    "compute net.raw ark:feats.ark ark:out.ark": TORCH,
}
COMMANDS |= {way: ["-m", "nnet3", *way.split()] for way in WAYS}


def processor_seconds(arguments: list[str], folder: Path) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], cwd=folder, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(folder: Path, rounds: int) -> dict[str, float]:
    """The first round writes byte code and does not count."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    found = [{name: processor_seconds(words, folder) for name, words in COMMANDS.items()} for _ in range(rounds + 1)]
    return {name: min(each[name] for each in found[1:]) for name in COMMANDS}


@click.command()
@click.option("--rounds", type=click.IntRange(1), default=5, show_default=True)
def main(rounds: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        nnet3.Nnet.from_config(CONFIG).save(folder / "net.raw")
        (folder / "feats.ark").write_text(FEATURES)
        seconds = measure(folder, rounds)
    table = Table(title="Starting, in processor time", box=None)
    for column in ("nnet3 ...", "ms", "beside", "ms", "ratio"):
        table.add_column(column, justify="right" if column in ("ms", "ratio") else "left")
    for way, peer in WAYS.items():
        own, other = seconds[way], seconds[peer]
        table.add_row(way, f"{own * 1e3:.0f}", peer, f"{other * 1e3:.0f}", f"{own / other:.2f}")
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
