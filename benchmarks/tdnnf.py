"""Compile and run time of a 15-layer TDNN-F beside the same net hand-written in PyTorch.

python -m benchmarks.tdnnf [--sequences 16] [--frames 50] [--threads 1] [--small]
"""

from __future__ import annotations

import time
from collections.abc import Callable

import click
import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from benchmarks.tdnnf_network import TdnnfTwin, tdnnf_config
from nnet3 import ComputationRequest, IoSpecification, Nnet, NnetComputer, compile


def median_seconds(function: Callable[[], object], rounds: int) -> float:
    function()
    seconds = []
    for _ in range(rounds):
        start = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - start)
    return float(np.median(seconds))


def request_for(nnet: Nnet, sequences: int, frames: int, *, train: bool) -> ComputationRequest:
    def at(first: int, last: int) -> np.ndarray:
        t, n = np.meshgrid(np.arange(first, last), np.arange(sequences), indexing="ij")
        return np.stack([n.ravel(), t.ravel(), np.zeros(n.size, int)], axis=1)

    inputs = [IoSpecification("input", at(-nnet.left_context, frames + nnet.right_context))]
    outputs = [IoSpecification("output", at(0, frames), has_deriv=train)]
    return ComputationRequest(inputs, outputs, need_model_derivative=train, store_component_stats=train)


def measure(sequences: int, frames: int, rounds: int, *, small: bool) -> Table:
    nnet = Nnet.from_config(tdnnf_config(256, 64, 200) if small else tdnnf_config())
    twin = TdnnfTwin(nnet)
    context = nnet.left_context + nnet.right_context
    x = torch.randn(sequences, 40, frames + context)
    rows = x.permute(2, 0, 1).reshape(-1, 40).contiguous()
    table = Table(title=f"TDNN-F, {sequences} x {frames} output frames, {torch.get_num_threads()} threads", box=None)
    for column in ("work", "commands", "compile (s)", "run (s)", "PyTorch (s)", "ratio"):
        table.add_column(column, justify="left" if column == "work" else "right")

    request = request_for(nnet, sequences, frames, train=False)
    start = time.perf_counter()
    computation = compile(nnet, request)
    compiled = time.perf_counter() - start
    computer = NnetComputer(computation, nnet, check_finite=False)

    def forward() -> torch.Tensor:
        computer.accept_input("input", rows)
        computer.run()
        return computer.get_output("output")

    twin.train()
    with torch.no_grad():
        expected = twin(x).permute(2, 0, 1).reshape(forward().shape)
        error = float((forward() - expected).norm() / expected.norm())
        assert error < 1e-3, f"the twin computes something else: relative difference {error:.1e}"
        ours, theirs = median_seconds(forward, rounds), median_seconds(lambda: twin(x), rounds)
    _row(table, "forward, batch-norm in training mode", len(computation.commands), compiled, ours, theirs)

    request = request_for(nnet, sequences, frames, train=True)
    start = time.perf_counter()
    computation = compile(nnet, request)
    compiled = time.perf_counter() - start
    labels = torch.randint(0, expected.shape[1], (sequences * frames,))
    supervision = torch.nn.functional.one_hot(labels, expected.shape[1]).float()
    twin_labels = labels.view(frames, sequences).t().contiguous()
    for title, target in (
        ("training step, plain gradient", nnet.gradient_copy()),
        ("training step, natural gradient", nnet.copy()),
    ):
        trainer = NnetComputer(computation, nnet, target, nnet_to_store_stats=nnet, check_finite=False)
        ours = median_seconds(lambda trainer=trainer: _step(trainer, rows, supervision), rounds)  # type: ignore[misc]
        theirs = median_seconds(lambda: _twin_step(twin, x, twin_labels), rounds)
        _row(table, title, len(computation.commands), compiled, ours, theirs)
    return table


def _step(computer: NnetComputer, rows: torch.Tensor, supervision: torch.Tensor) -> None:
    computer.accept_input("input", rows)
    computer.run()
    computer.get_output("output")
    computer.accept_input("output", supervision)
    computer.run()


def _twin_step(twin: TdnnfTwin, x: torch.Tensor, labels: torch.Tensor) -> None:
    """Forward, backward, plain gradients of all parameters."""
    twin.zero_grad(set_to_none=True)
    torch.nn.functional.nll_loss(twin(x), labels, reduction="sum").backward()


def _row(table: Table, work: str, commands: int, compiled: float, ours: float, theirs: float) -> None:
    table.add_row(work, str(commands), f"{compiled:.2f}", f"{ours:.3f}", f"{theirs:.3f}", f"{ours / theirs:.2f}")


@click.command()
@click.option("--sequences", default=16, show_default=True)
@click.option("--frames", default=50, show_default=True)
@click.option("--threads", default=1, show_default=True)
@click.option("--rounds", default=5, show_default=True)
@click.option("--small", is_flag=True, help="256/64 instead of 1536/160.")
def main(sequences: int, frames: int, threads: int, rounds: int, small: bool) -> None:
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    Console(width=120).print(measure(sequences, frames, rounds, small=small))


if __name__ == "__main__":
    main()
