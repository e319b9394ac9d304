"""Time, size and error of a TDNN-F whose products are of float32, bfloat16 and int8.

python -m benchmarks.precision [--frames 50] [--threads 1] [--small]
"""

from __future__ import annotations

import time

import click
import torch
from rich.console import Console
from rich.table import Table

from benchmarks.tdnnf import request_for
from benchmarks.tdnnf_network import tdnnf_config
from nnet3 import Nnet, NnetComputer, compile

SEQUENCES = (1, 16)
PRODUCTS = ("float32", "bfloat16", "int8")


def network(*, small: bool) -> Nnet:
    """Returns a TDNN-F in test mode with statistics of batch-norm, as a trained one has."""
    nnet = Nnet.from_config(tdnnf_config(256, 64, 200) if small else tdnnf_config())
    request = request_for(nnet, 4, 100, train=True)
    computer = NnetComputer(compile(nnet, request), nnet, nnet.gradient_copy(), nnet_to_store_stats=nnet)
    computer.accept_input("input", torch.randn(len(request.inputs[0].indexes), 40))
    computer.run()
    nnet.set_test_mode()
    return nnet


def num_bytes(nnet: Nnet) -> int:
    """Returns the size of all tensors of the components but statistics."""
    size = 0
    for component in nnet.components.values():
        names = {*component.parameter_names, *component.constant_names, "weights"}
        size += sum(
            tensor.nbytes for name in names if isinstance(tensor := getattr(component, name, None), torch.Tensor)
        )
    return size


def measure(frames: int, rounds: int, *, small: bool) -> Table:
    reference = network(small=small)
    networks = {p: reference if p == "float32" else reference.quantize(p) for p in PRODUCTS}
    table = Table(title=f"TDNN-F, {frames} output frames, {torch.get_num_threads()} threads", box=None)
    for column in ("products", "sequences", "best (ms)", "ratio", "MB", "ratio", "error", "posteriors"):
        table.add_column(column, justify="left" if column == "products" else "right")
    for sequences in SEQUENCES:
        request = request_for(reference, sequences, frames, train=False)
        rows = torch.randn(len(request.inputs[0].indexes), 40)
        computers = {p: NnetComputer(compile(nnet, request), nnet) for p, nnet in networks.items()}

        def run(
            products: str, computers: dict[str, NnetComputer] = computers, rows: torch.Tensor = rows
        ) -> torch.Tensor:
            computers[products].accept_input("input", rows)
            computers[products].run()
            return computers[products].get_output("output")

        outputs = {products: run(products) for products in PRODUCTS}
        best = dict.fromkeys(PRODUCTS, float("inf"))
        for _ in range(rounds):
            for products in PRODUCTS:
                start = time.perf_counter()
                run(products)
                best[products] = min(best[products], time.perf_counter() - start)
        expected = outputs["float32"]
        for products, output in outputs.items():
            size, whole = (num_bytes(networks[p]) for p in (products, "float32"))
            table.add_row(
                products,
                str(sequences),
                f"{1000 * best[products]:.1f}",
                f"{best[products] / best['float32']:.2f}",
                f"{size / 1e6:.1f}",
                f"{size / whole:.2f}",
                f"{float((output - expected).norm() / expected.norm()):.1e}",
                f"{float((output.exp() - expected.exp()).abs().max()):.1e}",
            )
    return table


@click.command()
@click.option("--frames", default=50, show_default=True)
@click.option("--threads", default=1, show_default=True)
@click.option("--rounds", default=20, show_default=True)
@click.option("--small", is_flag=True, help="256/64 instead of 1536/160.")
def main(frames: int, threads: int, rounds: int, small: bool) -> None:
    """Times alternate, and the best of each counts; errors are relative (Frobenius), and the largest of a posterior."""
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    Console(width=120).print(measure(frames, rounds, small=small))


if __name__ == "__main__":
    main()
