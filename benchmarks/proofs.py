"""What a proof costs beside lowering and the passes, and beside a first run: `python -m benchmarks.proofs`.

For networks of published recipes at full width (`golden/bench` of the shared folder), one thread, the least processor
time of some rounds. Programs of the first table are compiled for their length, without families. The second table has
what a user waits for: a cache compiles the program for a first request, a computer plans it, links it and runs it; and
the part of that which proofs take, when one program of each form is proved. Nothing is asserted.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import click
import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from benchmarks.cn_lstm import CLASSES, FRAMES, INPUTS, SEQUENCES, network
from benchmarks.compile import CASES, Case, least, read_network, request_for
from nnet3 import CompileOptions, ComputationCache, Nnet, NnetComputer, cn
from nnet3.engine.driver import default_cache, task, task_of
from nnet3.engine.driver.proving import PROVE
from nnet3.engine.ir.passes.pipeline import optimize
from nnet3.engine.ir.proof.equal import PassResult, prove_equal
from nnet3.engine.ir.repeats import unrolled
from nnet3.engine.lowering.lower import lower


def measure(folder: Path, case: Case, rounds: int) -> tuple[str, ...]:
    nnet = read_network(folder / case.name, train=case.train)
    lowered_from = task_of(nnet, request_for(nnet, case), CompileOptions()).lowered_from
    plain = unrolled(lower(*lowered_from()))
    optimized = optimize(plain)
    lowering = least(lambda: lower(*lowered_from()), rounds)
    passes = least(lambda: optimize(plain), rounds)
    proof = least(lambda: prove_equal([PassResult("", plain), PassResult("", optimized)]), rounds)
    shown = (f"{seconds * 1e3:.0f}" for seconds in (lowering, passes, proof))
    commands = f"{len(plain.commands)}, {len(optimized.commands)}"
    return str(case), commands, *shown, f"{proof / (lowering + passes):.2f}"


class ProofTime:
    """Adds up the processor time of the proofs of all compiled programs."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._prove = task.prove_results
        task.prove_results = self

    def __call__(self, results: Sequence[PassResult], seed: int = 0) -> None:
        start = time.process_time()
        self._prove(results, seed)
        self.seconds += time.process_time() - start

    def share(self, work: Callable[[], object], rounds: int) -> tuple[str, ...]:
        """Returns the least times of the work without its proofs and of these, in milliseconds, and their ratio."""
        pairs = []
        for _ in range(rounds):
            start, self.seconds = time.process_time(), 0.0
            work()
            pairs.append((time.process_time() - start - self.seconds, self.seconds))
        rest, proofs = (min(each) for each in zip(*pairs, strict=True))
        return f"{rest * 1e3:.0f}", f"{proofs * 1e3:.0f}", f"{proofs / rest:.2f}"


def first_run(nnet: Nnet, case: Case) -> None:
    """Compile for a first request, and run it."""
    request = request_for(nnet, case)
    delta = nnet.copy() if case.train else None
    computer = NnetComputer(ComputationCache().compile(nnet, request), nnet, delta, check_finite=False)
    for io in request.inputs:
        computer.accept_input(io.name, torch.randn(len(io.indexes), nnet.node_dim(io.name)))
    computer.run()
    if case.train:
        computer.accept_input("output", torch.randn(len(request.outputs[0].indexes), nnet.node_dim("output")) / 100)
        computer.run()


def first_of_cn(what: str) -> None:
    """Ask a new LSTM of a computational network for its criterion, or for its gradients."""
    rng = np.random.default_rng(0)
    xs = [rng.normal(size=(INPUTS, FRAMES)).astype(np.float32) for _ in range(SEQUENCES)]
    labels = [np.eye(CLASSES, dtype=np.float32)[:, rng.integers(CLASSES, size=FRAMES)] for _ in range(SEQUENCES)]
    default_cache().clear()
    getattr(network(), what)({"x": cn.sequences(xs), "labels": cn.sequences(labels)})


@click.command(help=__doc__)
@click.option("--folder", default="../shared/golden/bench", show_default=True, type=click.Path(path_type=Path))
@click.option("--rounds", default=3, show_default=True, help="Of which the least counts.")
def main(folder: Path, rounds: int) -> None:
    torch.set_num_threads(1)
    os.environ[PROVE] = "forms"
    table = Table("work", "commands: plain, optimized", "lowering, ms", "passes, ms", "proof, ms", "proof / both")
    for case in CASES:
        table.add_row(*measure(folder, case, rounds))
    console = Console(width=140)
    console.print(table)
    table, proofs = Table("first compile and run", "without proofs, ms", "proofs, ms", "ratio"), ProofTime()
    for case in (*CASES, Case("tdnnf", 1, 300, False), Case("blstm", 1, 300, False)):
        nnet = read_network(folder / case.name, train=case.train)
        table.add_row(str(case), *proofs.share(partial(first_run, nnet, case), rounds))
    for what in ("criterion", "backward"):
        name = f"LSTM of nnet3.cn {SEQUENCES} x {FRAMES} {what}"
        table.add_row(name, *proofs.share(partial(first_of_cn, what), rounds))
    console.print(table)


if __name__ == "__main__":
    main()
