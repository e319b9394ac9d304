"""The chain objective and its derivative as a share of a training step of the TDNN-F, memory, and growth.

python -m benchmarks.chain [--threads 1] [--sequences 64] [--frames 50] [--no-step]

Two graphs of 5,000 states, 100,000 arcs and 3,000 pdfs: one as phone language models make them (a state has the
phone that leads to it, so all arcs into it have one pdf but its self-loop), and one at random, where nothing that arcs
have in common can be added up first. The peer is the TDNN-F of 15 layers, 1536/160, on 64 x 50 output frames, forward,
backward and natural-gradient update, in the same run.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import click
import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from benchmarks.tdnnf import median_seconds, request_for
from benchmarks.tdnnf_network import tdnnf_config
from nnet3 import Nnet, NnetComputer, compile
from nnet3.base.kaldi_io.fst import Fst
from nnet3.chain import ChainOptions, Denominator, DenominatorGraph, Supervision, chain_value
from nnet3.training.chain.supervision import concatenate

STATES, ARCS, PDFS = 5_000, 100_000, 3_000
WIDTH = 4  # states of a supervision in each frame


def make_graph(kind: str, states: int = STATES, arcs: int = ARCS, pdfs: int = PDFS) -> DenominatorGraph:
    """`phones`: the pdf follows from the state that an arc leads to; `random`: it does not."""
    rng = np.random.default_rng(0)
    source, destination = rng.integers(states, size=(2, arcs))
    source[:states] = destination[:states] = np.arange(states)  # self-loops
    source[states : 2 * states], destination[states : 2 * states] = np.arange(states), np.roll(np.arange(states), -1)
    own = rng.integers(pdfs, size=(2, states))
    pdf = own[(source == destination).astype(int), destination] if kind == "phones" else rng.integers(pdfs, size=arcs)
    leaving = np.bincount(source, minlength=states)
    return DenominatorGraph.from_transitions(
        pdfs, source, destination, pdf, np.log(leaving[source] + 0.1), np.full(states, 5.0)
    )


def make_supervision(sequences: int, frames: int, pdfs: int = PDFS) -> Supervision:
    """Acceptors with WIDTH states at each time and arcs between all of them, as tolerances make them."""
    rng = np.random.default_rng(0)
    single = []
    for _ in range(sequences):
        count = np.array([1, *[WIDTH] * (frames - 1), 1])
        first = np.cumsum(count) - count
        arcs = [
            (first[t] + i, first[t + 1] + j)
            for t in range(frames)
            for i in range(count[t])
            for j in range(count[t + 1])
        ]
        source, destination = np.array(arcs).T
        final = np.full(count.sum(), np.inf)
        final[-1] = 0.0
        single.append(Fst.from_arcs(0, final, source, destination, rng.integers(pdfs, size=len(arcs)) + 1))
    return Supervision(1.0, sequences, frames, pdfs, (concatenate(single),))


def training_step(sequences: int, frames: int) -> Callable[[], None]:
    """Forward, backward and update of the TDNN-F, its objective left out."""
    nnet = Nnet.from_config(tdnnf_config())
    computation = compile(nnet, request_for(nnet, sequences, frames, train=True))
    computer = NnetComputer(computation, nnet, nnet.copy(), nnet_to_store_stats=nnet, check_finite=False)
    context = nnet.left_context + nnet.right_context
    features = torch.randn((frames + context) * sequences, 40)

    def step() -> None:
        computer.accept_input("input", features)
        computer.run()
        output = computer.get_output("output")
        computer.accept_input("output", torch.zeros_like(output))
        computer.run()

    return step


def seconds(graph: DenominatorGraph, sequences: int, frames: int, rounds: int, what: str = "all") -> float:
    denominator = Denominator(graph, 0.1)
    output = torch.randn(sequences * frames, graph.num_pdfs)
    if what == "denominator":
        return median_seconds(lambda: denominator.forward_backward(output, sequences), rounds)
    supervision = make_supervision(sequences, frames, graph.num_pdfs)
    return median_seconds(lambda: chain_value(output, supervision, denominator, ChainOptions()), rounds)


def shares(sequences: int, frames: int, rounds: int, *, with_step: bool) -> Table:
    table = Table(title=f"{sequences} x {frames} frames, {torch.get_num_threads()} threads", box=None)
    for column in ("work", "seconds", "share of a step (%)", "memory (MB)"):
        table.add_column(column, justify="left" if column == "work" else "right")
    step = median_seconds(training_step(sequences, frames), min(rounds, 3)) if with_step else float("nan")
    table.add_row("training step of the TDNN-F", f"{step:.3f}", "100", "")
    kept = 4 * sequences * ((frames + 1) * STATES + 2 * frames * PDFS) / 1e6
    for kind in ("phones", "random"):
        graph = make_graph(kind)
        for what in ("denominator", "all"):
            own = seconds(graph, sequences, frames, rounds, what)
            name = "objective and derivative" if what == "all" else "of which the denominator"
            table.add_row(f"{name}, graph '{kind}'", f"{own:.3f}", f"{100 * own / step:.1f}", f"{kept:.0f}")
    return table


def growth(sequences: int, frames: int, rounds: int) -> Table:
    """Each size doubled by itself, relative to the size before it in the same run."""
    table = Table(title="denominator, graph 'phones': time when one size is doubled", box=None)
    for column in ("doubled", "seconds", "ratio"):
        table.add_column(column, justify="left" if column == "doubled" else "right")
    base = seconds(make_graph("phones"), sequences, frames, rounds, "denominator")
    table.add_row("nothing", f"{base:.3f}", "1.00")
    for name, graph, factor in (
        ("states", make_graph("phones", states=2 * STATES), 1),
        ("arcs", make_graph("phones", arcs=2 * ARCS), 1),
        ("sequences", make_graph("phones"), 2),
    ):
        own = seconds(graph, factor * sequences, frames, rounds, "denominator")
        table.add_row(name, f"{own:.3f}", f"{own / base:.2f}")
    return table


@click.command()
@click.option("--sequences", default=64, show_default=True)
@click.option("--frames", default=50, show_default=True)
@click.option("--threads", default=1, show_default=True)
@click.option("--rounds", default=5, show_default=True)
@click.option("--step/--no-step", default=True, help="With the training step as a peer.")
def main(sequences: int, frames: int, threads: int, rounds: int, step: bool) -> None:
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    console = Console(width=120)
    start = time.perf_counter()
    console.print(shares(sequences, frames, rounds, with_step=step))
    console.print(growth(sequences, frames, rounds))
    console.print(f"({time.perf_counter() - start:.0f} s in all)")


if __name__ == "__main__":
    main()
