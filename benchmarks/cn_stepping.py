"""Generating frame by frame: a stepper, the whole prefix evaluated anew for each frame, and nn.LSTMCell in a loop.

An LSTM of 512 cells with 512 inputs and 40 outputs, float32, one thread; 1 and 8 sequences. Prints microseconds for a
frame, the least of several rounds taken in turns.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import torch
from torch import nn

from nnet3 import cn

CELLS, OUTPUTS, FRAMES, ROUNDS = 512, 40, 50, 8


class TorchCell:
    """PyTorch's cell and an affine layer, frame after frame; without peepholes."""

    def __init__(self, sequences: int):
        self.cell, self.last = nn.LSTMCell(CELLS, CELLS), nn.Linear(CELLS, OUTPUTS)
        self.h = self.c = torch.zeros(sequences, CELLS)

    @torch.inference_mode()
    def step(self, x: torch.Tensor) -> torch.Tensor:
        self.h, self.c = self.cell(x, (self.h, self.c))
        scores: torch.Tensor = self.last(self.h)
        return scores


def least_times(functions: dict[str, Callable[[], object]]) -> dict[str, float]:
    times: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(1 + ROUNDS):
        for name, function in functions.items():
            start = time.perf_counter()
            function()
            times[name].append((time.perf_counter() - start) / FRAMES * 1e6)
    return {name: min(taken) for name, taken in times.items()}


def main() -> None:
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    hidden = cn.macros.lstm(cn.input("x", CELLS), CELLS).h
    net = cn.Network(outputs={"y": cn.macros.affine(hidden, OUTPUTS, name="out")})
    for sequences in (1, 8):
        x = rng.normal(size=(FRAMES, CELLS, sequences)).astype(np.float32)
        rows = torch.from_numpy(x.transpose(0, 2, 1).copy())
        stepper, cell = net.stepper("y", sequences=sequences), TorchCell(sequences)

        def prefixes(x: np.ndarray = x) -> None:
            for t in (1, FRAMES // 2, FRAMES):  # the mean of these three is that of all
                net.touch()
                net.evaluate("y", {"x": cn.sequences(list(x[:t].transpose(2, 1, 0)))})

        functions: dict[str, Callable[[], object]] = {
            "stepper": lambda x=x, stepper=stepper: [stepper.step({"x": frame}) for frame in x],  # type: ignore[misc]
            "nn.LSTMCell": lambda rows=rows, cell=cell: [cell.step(frame) for frame in rows],  # type: ignore[misc]
        }
        times = least_times(functions)
        times["prefix anew"] = least_times({"": prefixes})[""] * FRAMES / 3
        shown = ", ".join(f"{name} {micro:,.0f} us" for name, micro in times.items())
        ratio = times["stepper"] / times["nn.LSTMCell"]
        print(f"{sequences} sequences, {FRAMES} frames: {shown}; stepper / nn.LSTMCell {ratio:.2f}")


if __name__ == "__main__":
    main()
