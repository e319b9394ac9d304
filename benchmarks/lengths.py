"""What ever new lengths cost, as a share of running them: `python -m benchmarks.lengths`.

For networks of published recipes at full width (`golden/bench` of the shared folder): requests of lengths drawn at
random, each once, in a random order. Each is run with a program from a cache, which continues short programs to other
lengths, and with one that is compiled for its length; both in turns, one thread, processor time. Nothing is asserted.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import click
import torch
from rich.console import Console
from rich.table import Table

from benchmarks.compile import Case, read_network, request_for
from nnet3 import ComputationCache, ComputationRequest, Nnet, NnetComputer, compile
from nnet3.ir.computation import NnetComputation

CASES = (
    ("tdnnf_small", 1, False),
    ("tdnnf", 1, False),
    ("blstm", 1, False),
    ("tdnn_lstm", 1, False),
    ("blstm", 8, True),
)
SHORTEST, LONGEST = 20, 100  # frames of output


def seconds_of(
    make: Callable[[Nnet, ComputationRequest], NnetComputation], nnet: Nnet, request: ComputationRequest
) -> tuple[float, float]:
    """Processor time of making and linking a program, and of running it."""
    delta = nnet.copy() if request.need_model_derivative else None
    start = time.process_time()
    computer = NnetComputer(make(nnet, request), nnet, delta, check_finite=False)
    linked = time.process_time()
    for io in request.inputs:
        computer.accept_input(io.name, torch.zeros(len(io.indexes), nnet.node_dim(io.name)))
    computer.run()
    if delta is not None:
        computer.accept_input("output", torch.zeros(len(request.outputs[0].indexes), nnet.node_dim("output")))
        computer.run()
    return linked - start, time.process_time() - linked


def measure(folder: Path, name: str, sequences: int, train: bool, count: int) -> tuple[str, ...]:
    nnet, cache = read_network(folder / name, train=train), ComputationCache()
    lengths = random.Random(1).sample(range(SHORTEST, LONGEST + 1), count)
    seconds_of(compile, nnet, request_for(nnet, Case(name, sequences, SHORTEST, train)))
    requests = [request_for(nnet, Case(name, sequences, frames, train)) for frames in lengths]
    both = [[seconds_of(make, nnet, request) for make in (compile, cache.compile)] for request in requests]
    made = [sum(each[way][0] for each in both) for way in (0, 1)]
    run = sum(seconds for each in both for _, seconds in each) / 2
    middle = [median(each[way][0] for each in both) for way in (0, 1)]
    return (
        f"{name} {sequences} x {SHORTEST} to {LONGEST}{' training step' if train else ''}",
        f"{cache.counts.compiled} + {cache.counts.continued}",
        f"{middle[0] * 1e3:.0f}",
        f"{middle[1] * 1e3:.1f}",
        f"{run / count * 1e3:.0f}",
        f"{made[0] / run:.2f}",
        f"{made[1] / run:.2f}",
        f"{middle[1] / (run / count):.2f}",
    )


@click.command()
@click.option("--folder", type=click.Path(path_type=Path), default=Path("../shared/golden/bench"), show_default=True)
@click.option("--count", type=click.IntRange(2, LONGEST - SHORTEST + 1), default=60, show_default=True, help="Lengths.")
def main(folder: Path, count: int) -> None:
    torch.set_num_threads(1)
    if not folder.is_dir():
        raise click.ClickException(f"there is no folder {folder} with the networks to compile")
    columns = (
        *("request", "compiled + continued", "compiled, ms", "from cache, ms", "run, ms"),
        *("compiled / run", "cache / run", "median from cache / run"),
    )
    table = Table(*columns, title=f"{count} new lengths, made and linked, as a share of running them", box=None)
    for name, sequences, train in CASES:
        table.add_row(*measure(folder.resolve(), name, sequences, train, count))
    Console(width=170).print(table)


if __name__ == "__main__":
    main()
