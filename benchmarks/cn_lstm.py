"""The LSTM of a computational network against the same equations written in PyTorch with autograd.

16 sequences x 100 frames, 256 cells, 64 inputs, 40 classes: forward and gradient, float32, one thread. Prints times
(the least of several rounds, taken in turns) and their ratio.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import torch

from nnet3 import cn

SEQUENCES, FRAMES, CELLS, INPUTS, CLASSES = 16, 100, 256, 64, 40
ROUNDS = 12


def network() -> cn.Network:
    x, labels = cn.input("x", INPUTS), cn.input("labels", CLASSES)
    lstm = cn.macros.lstm(x, CELLS)
    return cn.Network(cn.cross_entropy_with_softmax(labels, cn.macros.affine(lstm.h, CLASSES, name="out"), name="J"))


class TorchLstm:
    """(1.152) to (1.164), frame by frame on (sequences, cells); what does not depend on the loop is done at once."""

    def __init__(self, parameters: dict[str, np.ndarray]):
        self.p = {name: torch.tensor(value.T.copy(), requires_grad=True) for name, value in parameters.items()}

    def __call__(self, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        p = self.p
        from_input = {gate: x @ p[f"lstm.Wx{gate}"] for gate in "ifco"}
        h = c = x.new_zeros(SEQUENCES, CELLS)
        outputs = []
        for t in range(FRAMES):
            before = {g: from_input[g][t] + h @ p[f"lstm.Wh{g}"] + p[f"lstm.b{g}"] for g in "ifco"}
            i = torch.sigmoid(before["i"] + p["lstm.dci"] * c)
            f = torch.sigmoid(before["f"] + p["lstm.dcf"] * c)
            c = f * c + i * torch.tanh(before["c"])
            o = torch.sigmoid(before["o"] + p["lstm.dco"] * c)
            h = o * torch.tanh(c)
            outputs.append(h)
        scores = torch.stack(outputs) @ p["out.W"] + p["out.b"]
        return -(labels * torch.log_softmax(scores, 2)).sum()

    def gradients(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        for tensor in self.p.values():
            tensor.grad = None
        self(x, labels).backward()
        return {name: tensor.grad for name, tensor in self.p.items() if tensor.grad is not None}


def least_times(functions: dict[str, Callable[[], object]]) -> dict[str, float]:
    times: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(ROUNDS):
        for name, function in functions.items():
            start = time.perf_counter()
            function()
            times[name].append(time.perf_counter() - start)
    return {name: min(taken) for name, taken in times.items()}


def main() -> None:
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    net = network()
    xs = [rng.normal(size=(INPUTS, FRAMES)).astype(np.float32) for _ in range(SEQUENCES)]
    targets = [np.eye(CLASSES, dtype=np.float32)[:, rng.integers(CLASSES, size=FRAMES)] for _ in range(SEQUENCES)]
    batch = {"x": cn.sequences(xs), "labels": cn.sequences(targets)}
    peer = TorchLstm(net.parameters())
    x, labels = (torch.tensor(np.stack(each, 0)).permute(2, 0, 1).contiguous() for each in (xs, targets))
    ours, theirs = net.gradients(batch), peer.gradients(x, labels)
    worst = max(float((torch.tensor(ours[n].T) - g).abs().max() / g.abs().max()) for n, g in theirs.items())
    with torch.no_grad():
        forward = least_times({"ours": lambda: net.criterion(_anew(batch)), "autograd": lambda: peer(x, labels)})
    both = least_times({"ours": lambda: net.backward(batch), "autograd": lambda: peer.gradients(x, labels)})
    print(f"LSTM {SEQUENCES} x {FRAMES} frames, {CELLS} cells; largest relative difference of gradients {worst:.1e}")
    for what, times in (("forward", forward), ("forward and gradient", both)):
        ratio = times["ours"] / times["autograd"]
        print(f"{what:<22} ours {times['ours']:.4f} s   PyTorch {times['autograd']:.4f} s   ratio {ratio:.2f}")


def _anew(batch: dict[str, cn.Sequences]) -> dict[str, cn.Sequences]:
    """The batch with one number changed, so that nothing known can be used again."""
    batch["x"][0][0, 0] += 1
    return batch


if __name__ == "__main__":
    main()
