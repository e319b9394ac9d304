"""Parallel branches of a computational network on two workers (Algorithm 1.3), beside one worker.

Four branches of four layers, 512 wide, 2,000 samples, one PyTorch thread each: values, then gradients. Times are
the least of several rounds, taken in turns.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
import torch

from benchmarks.cn_lstm import least_times
from nnet3 import cn

BRANCHES, LAYERS, WIDTH, SAMPLES = 4, 4, 512, 2000


def network() -> cn.Network:
    x = cn.input("x", WIDTH)
    ends = []
    for branch in range(BRANCHES):
        h = x
        for layer in range(LAYERS):
            h = cn.macros.dnn_layer(h, WIDTH, name=f"branch{branch}.{layer}", activation=cn.tanh)
        ends.append(h)
    total = ends[0]
    for end in ends[1:]:
        total = total + end
    return cn.Network(cn.squared_norm(total), {"total": total})


def gain_of_threads() -> float:
    """What this machine gains by two threads that have nothing to do with each other."""
    x, W = torch.randn(SAMPLES, WIDTH), torch.randn(WIDTH, WIDTH)

    def products() -> None:
        for _ in range(BRANCHES * LAYERS):
            torch.mm(x, W)

    def twice() -> None:
        threads = [threading.Thread(target=products) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    seconds = least_times({"one": products, "two": twice})
    return 2 * seconds["one"] / seconds["two"]


def main() -> None:
    torch.set_num_threads(1)
    net, rng = network(), np.random.default_rng(0)
    inputs = [{"x": rng.normal(size=(WIDTH, SAMPLES)).astype(np.float32)} for _ in range(2)]
    turn = [0]

    def another() -> dict[str, np.ndarray]:
        turn[0] += 1
        return inputs[turn[0] % 2]

    evaluators = {
        f"{workers} workers, {policy}": cn.AsynchronousEvaluator(net, workers, policy)
        for workers in (1, 2)
        for policy in ("first come", "shortest task", "least data movement")
    }
    expected = net.evaluate("total", inputs[0])
    for evaluator in evaluators.values():
        assert np.array_equal(evaluator.evaluate("total", inputs[0]), expected), "other values"
    runs = {name: lambda e=evaluator: e.evaluate("total", another()) for name, evaluator in evaluators.items()}
    print(f"{BRANCHES} branches of {LAYERS} layers, {WIDTH} wide, {SAMPLES} samples")
    print(f"two threads of plain matrix products  {gain_of_threads():.2f} x the speed of one")
    print_times("values", {"synchronous": lambda: net.evaluate("total", another()), **runs})
    runs = {name: lambda e=evaluator: e.backward(another()) for name, evaluator in evaluators.items()}
    print_times("gradients", {"synchronous": lambda: net.backward(another()), **runs})


def print_times(title: str, runs: dict[str, Callable[[], object]]) -> None:
    times = least_times(runs)
    for name, seconds in times.items():
        print(f"{title}, {name:<34} {seconds:.4f} s   {times['synchronous'] / seconds:.2f} x the speed of synchronous")


if __name__ == "__main__":
    main()
