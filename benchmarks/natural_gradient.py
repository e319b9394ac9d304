"""What natural gradient costs on top of a layer's plain backward pass (input derivative and parameter derivative).

    python benchmarks/natural_gradient.py [--rows 3000] [--dim 1536] [--threads 1 --threads 2]

Prints, as a share of the plain backward pass, the extra time of a minibatch that updates the estimates, of one that
does not, and of the average in steady state (update period 4).
"""

from __future__ import annotations

import statistics
import time

import click
import torch
from torch import Tensor

from nnet3 import components
from nnet3.components import Component


def time_backward(component: Component, to_update: Component, x: Tensor, g: Tensor, x_deriv: Tensor) -> float:
    """Seconds of one backward pass with update."""
    start = time.perf_counter()
    component.backward(x, g, g, None, to_update, x_deriv)
    return time.perf_counter() - start


def measure(rows: int, dim: int, rounds: int) -> tuple[float, float, float]:
    """Median seconds of a plain backward pass, of one with natural gradient, and of one that updates the estimates."""
    torch.manual_seed(0)
    x, g = torch.randn(rows, dim).clamp_(min=0), torch.randn(rows, dim)
    x_deriv = torch.empty_like(x)
    component = components.create("NaturalGradientAffineComponent", f"input-dim={dim} output-dim={dim}")
    plain, natural = component.gradient_copy(), component.copy()
    natural.set_learning_rate(1e-9)
    for _ in range(10):  # the first ten minibatches all update
        component.backward(x, g, g, None, natural, None)
    times: dict[str, list[float]] = {"plain": [], "natural": [], "update": []}
    for minibatch in range(10, 10 + 4 * rounds):
        times["plain"].append(time_backward(component, plain, x, g, x_deriv))
        times["update" if minibatch % 4 == 2 else "natural"].append(time_backward(component, natural, x, g, x_deriv))
    plain_time, natural_time, update_time = (statistics.median(times[kind]) for kind in ("plain", "natural", "update"))
    return plain_time, natural_time, update_time


@click.command()
@click.option("--rows", default=3000, show_default=True, help="Rows of a minibatch.")
@click.option("--dim", default=1536, show_default=True, help="Input and output dimension of the layer.")
@click.option("--rounds", default=8, show_default=True, help="Update periods (of 4 minibatches) to measure.")
@click.option("--threads", multiple=True, type=int, default=(1, 2), show_default=True, help="May be repeated.")
def main(rows: int, dim: int, rounds: int, threads: tuple[int, ...]) -> None:
    print(f"{rows} rows, {dim} -> {dim}, float32, ranks 20 and 80; extra time as a share of the plain backward pass")
    print(f"{'threads':>7} {'plain ms':>9} {'no update':>10} {'update':>8} {'average':>8}")
    for count in threads:
        torch.set_num_threads(count)
        plain, natural, update = measure(rows, dim, rounds)
        shares = [natural / plain - 1, update / plain - 1, (3 * natural + update) / (4 * plain) - 1]
        print(f"{count:7} {1000 * plain:9.1f} {shares[0]:10.1%} {shares[1]:8.1%} {shares[2]:8.1%}")


if __name__ == "__main__":
    with torch.no_grad():
        main()
