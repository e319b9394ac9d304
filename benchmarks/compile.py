"""What it takes to compile a request, as a multiple of running it once: `python -m benchmarks.compile`.

For networks of published recipes at full width (`golden/bench` of the shared folder): compile + link, the same from a
cache on disk, one run, and peak memory of the matrices. One thread; each figure is the least of several rounds of
processor time, so that other work on the machine counts little. Nothing is asserted.
"""

from __future__ import annotations

import os
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import click
import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from nnet3 import ComputationCache, ComputationRequest, IoSpecification, Nnet, NnetComputer, compile
from nnet3.engine.ir.computation import NnetComputation
from nnet3.model.edits import prepare_for_test

FACTOR = 3  # outputs for every third frame


class Case(NamedTuple):
    name: str
    sequences: int
    frames: int  # of output
    train: bool

    def __str__(self) -> str:
        return f"{self.name} {self.sequences} x {self.frames} {'training step' if self.train else 'forward'}"


CASES = (
    Case("tdnnf", 1, 50, False),
    Case("tdnnf", 16, 50, False),
    Case("tdnn_lstm", 1, 50, False),
    Case("blstm", 1, 50, False),
    Case("tdnn_opgru", 1, 50, False),
    Case("tdnnf", 64, 50, True),
    Case("tdnn_lstm", 16, 20, True),
    Case("blstm", 16, 20, True),
    Case("tdnn_opgru", 16, 20, True),
)


def read_network(folder: Path, *, train: bool) -> Nnet:
    """The network; not for training it is in test mode and collapsed. Its config names files in its own folder."""
    here = Path.cwd()
    os.chdir(folder)
    try:
        nnet = Nnet.from_config_file("final.config")
    finally:
        os.chdir(here)
    if not train:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # batch-norm that was never trained takes mean 0 and variance 1
            prepare_for_test(nnet)
    return nnet


def request_for(nnet: Nnet, case: Case) -> ComputationRequest:
    def at(times: np.ndarray) -> np.ndarray:
        t, n = np.meshgrid(times, np.arange(case.sequences), indexing="ij")
        return np.stack([n.ravel(), t.ravel(), np.zeros(n.size, int)], axis=1)

    frames = np.arange(-nnet.left_context, FACTOR * case.frames + nnet.right_context)
    inputs = [IoSpecification("input", at(frames))]
    if "ivector" in nnet.input_names:
        inputs.append(IoSpecification("ivector", at(np.zeros(1, int))))
    outputs = [IoSpecification("output", at(np.arange(0, FACTOR * case.frames, FACTOR)), has_deriv=case.train)]
    return ComputationRequest(inputs, outputs, need_model_derivative=case.train, store_component_stats=case.train)


def least(function: Callable[[], object], rounds: int) -> float:
    seconds = []
    for _ in range(rounds):
        start = time.process_time()
        function()
        seconds.append(time.process_time() - start)
    return min(seconds)


def measure(folder: Path, case: Case, rounds: int) -> tuple[str, ...]:
    nnet = read_network(folder / case.name, train=case.train)
    request = request_for(nnet, case)
    delta = nnet.copy() if case.train else None

    def link(computation: NnetComputation) -> NnetComputer:
        return NnetComputer(computation, nnet, delta, check_finite=False)

    computer = link(compile(nnet, request))
    compiled = least(lambda: link(compile(nnet, request)), rounds)
    inputs = {io.name: torch.randn(len(io.indexes), nnet.node_dim(io.name)) for io in request.inputs}
    derivative = torch.randn(len(request.outputs[0].indexes), nnet.node_dim("output")) / 100

    def run() -> None:
        for name, matrix in inputs.items():
            computer.accept_input(name, matrix)
        computer.run()
        if case.train:
            computer.accept_input("output", derivative)
            computer.run()

    run()
    seconds = least(run, 2 if case.train else rounds)
    with tempfile.TemporaryDirectory() as cache_folder:
        link(ComputationCache(cache_folder).compile(nnet, request))
        cached = least(lambda: link(ComputationCache(cache_folder).compile(nnet, request)), rounds)
    return (
        str(case),
        str(len(computer.computation.commands)),
        f"{compiled * 1e3:.0f}",
        f"{cached * 1e3:.1f}",
        f"{seconds * 1e3:.0f}",
        f"{compiled / seconds:.3f}",
        f"{cached / compiled:.2f}",
        f"{computer.plan.num_bytes / 1e6:.1f}",
    )


@click.command()
@click.option("--folder", type=click.Path(path_type=Path), default=Path("../shared/golden/bench"), show_default=True)
@click.option("--rounds", type=click.IntRange(1), default=5, show_default=True)
@click.option("--only", default="", help="Only cases whose name begins with this.")
def main(folder: Path, rounds: int, only: str) -> None:
    torch.set_num_threads(1)
    if not folder.is_dir():
        raise click.ClickException(f"there is no folder {folder} with the networks to compile")
    columns = (
        "request",
        "commands",
        "compile + link, ms",
        "from disk, ms",
        "run, ms",
        "ratio",
        "disk / new",
        "peak MB",
    )
    table = Table(*columns, title="Compiling, as a multiple of one run (processor time, one thread)", box=None)
    for case in CASES:
        if str(case).startswith(only):
            table.add_row(*measure(folder.resolve(), case, rounds))
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
