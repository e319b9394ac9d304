"""What TorchModule costs beside the computer that it wraps: forward and backward, as ratios in one run.

python -m benchmarks.torch_module [--sequences 16] [--frames 50] [--threads 1] [--rounds 7]
"""

from __future__ import annotations

import time
from collections.abc import Callable

import click
import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from benchmarks.tdnnf_network import tdnnf_config
from nnet3 import ComputationRequest, IoSpecification, Nnet, NnetComputer, TorchModule, compile

_SMALL = """
input-node name=input dim=20
component name=tdnn1 type=NaturalGradientAffineComponent input-dim=60 output-dim=64
component-node name=tdnn1 component=tdnn1 input=Append(Offset(input, -1), input, Offset(input, 1))
component name=relu1 type=RectifiedLinearComponent dim=64
component-node name=relu1 component=relu1 input=tdnn1
component name=tdnn2 type=TdnnComponent input-dim=64 output-dim=64 time-offsets=-3,0,3
component-node name=tdnn2 component=tdnn2 input=relu1
component name=relu2 type=RectifiedLinearComponent dim=64
component-node name=relu2 component=relu2 input=tdnn2
component name=last type=AffineComponent input-dim=64 output-dim=40
component-node name=last component=last input=relu2
output-node name=output input=last
"""


class ByComputer:
    """Forward and backward of a padded batch, by a computer with its own rows."""

    def __init__(self, nnet: Nnet, sequences: int, frames: int) -> None:
        def at(first: int, last: int) -> np.ndarray:
            n, t = np.meshgrid(np.arange(sequences), np.arange(first, last), indexing="ij")
            return np.stack([n.ravel(), t.ravel(), np.zeros(n.size, int)], axis=1)

        request = ComputationRequest(
            [IoSpecification("input", at(-nnet.left_context, frames + nnet.right_context))],
            [IoSpecification("output", at(0, frames), has_deriv=True)],
            need_model_derivative=True,
        )
        self.gradient = nnet.gradient_copy()
        self.computer = NnetComputer(compile(nnet, request), nnet, self.gradient, check_finite=False)
        self.times = torch.arange(-nnet.left_context, frames + nnet.right_context).clamp(0, frames - 1)

    def step(self, features: torch.Tensor, derivative: torch.Tensor) -> torch.Tensor:
        """The output; the gradients are in `gradient`."""
        self.gradient.scale_(0.0)
        self.computer.accept_input("input", features[:, self.times].flatten(0, 1))
        self.computer.run()
        output = self.computer.get_output("output")
        self.computer.accept_input("output", derivative.flatten(0, 1))
        self.computer.run()
        return output


def measure(name: str, nnet: Nnet, sequences: int, frames: int, rounds: int, table: Table) -> None:
    """One row: medians over rounds that take turns, and the median of the ratios of neighbours."""
    dim, outputs = nnet.node_dim("input"), nnet.node_dim("output")
    features, derivative = torch.randn(sequences, frames, dim), torch.randn(sequences, frames, outputs)
    by_computer, module = ByComputer(nnet, sequences, frames), TorchModule(nnet)
    parameters = list(module.parameters())

    def by_module() -> torch.Tensor:
        for parameter in parameters:
            parameter.grad = None
        output = module(features)
        output.backward(derivative)
        return output.detach()

    _check(by_computer.step(features, derivative).view_as(derivative), by_module())
    gradients = [t for c in by_computer.gradient.components.values() for t in c.parameters().values() if t.numel()]
    for expected, parameter in zip(gradients, parameters, strict=True):
        _check(expected, parameter.grad)
    pairs = [(_seconds(lambda: by_computer.step(features, derivative)), _seconds(by_module)) for _ in range(rounds)]
    computer, own = np.median(pairs, axis=0)
    ratio = np.median([second / first for first, second in pairs])
    table.add_row(name, f"{sequences} x {frames}", f"{1e3 * computer:.2f}", f"{1e3 * own:.2f}", f"{ratio:.3f}")


def _check(expected: torch.Tensor, found: torch.Tensor | None) -> None:
    assert found is not None
    error = float((expected - found).norm() / expected.norm())
    assert error < 1e-3, f"the module computes something else: relative difference {error:.1e}"


def _seconds(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


@click.command()
@click.option("--sequences", default=16, show_default=True)
@click.option("--frames", default=50, show_default=True)
@click.option("--threads", default=1, show_default=True)
@click.option("--rounds", default=7, show_default=True)
def main(sequences: int, frames: int, threads: int, rounds: int) -> None:
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    table = Table(title=f"TorchModule, forward and backward, {threads} threads", box=None)
    for column in ("network", "batch", "computer (ms)", "module (ms)", "ratio"):
        table.add_column(column, justify="left" if column == "network" else "right")
    for name, config, size, times in (
        ("TDNN, 3 layers of 64", _SMALL, (8, 20), 100),
        ("TDNN, 3 layers of 64", _SMALL, (16, 150), 20),
        ("TDNN-F, 15 layers of 256/64", tdnnf_config(256, 64, 200), (sequences, frames), 1),
        ("TDNN-F, 15 layers of 1536/160", tdnnf_config(), (sequences, frames), 1),
    ):
        measure(name, Nnet.from_config(config), *size, times * rounds, table)
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
