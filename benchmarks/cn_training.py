"""Gradients of computational networks against PyTorch: an MLP, an LSTM, a CNN, and an embedding of many words.

Forward and gradient, float32, one thread. Prints times (the least of several rounds, taken in turns) and their ratio.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.cn_lstm import least_times
from nnet3 import cn

CLASSES = 10
CELLS, SEQUENCES, FRAMES, INPUTS = 512, 16, 100, 64
WORDS, DIM = 100_000, 64
IMAGE = (28, 28, 1)
Pair = dict[str, Callable[[], object]]


def gradients(module: nn.Module, x: Tensor, labels: Tensor) -> Callable[[], object]:
    """A function that finds the gradients of the summed cross-entropy, as `Network.backward` does."""

    def run() -> None:
        module.zero_grad()
        nn.functional.cross_entropy(module(x), labels, reduction="sum").backward()

    return run


def mlp(rng: np.random.Generator, minibatch: int, dims: Sequence[int]) -> Pair:
    """Hidden layers of sigmoids; `dims` from the input to the classes."""
    x, labels = rng.normal(size=(minibatch, dims[0])).astype(np.float32), rng.integers(0, dims[-1], minibatch)
    h = node = cn.input("x", dims[0])
    layers: list[nn.Module] = []
    for number, (dim, wanted) in enumerate(pairwise(dims[:-1])):
        h = cn.sigmoid(cn.macros.affine(h, wanted, name=f"h{number}"))
        layers += [nn.Linear(dim, wanted), nn.Sigmoid()]
    scores = cn.macros.affine(h, dims[-1], name="scores")
    J = cn.cross_entropy_with_softmax(cn.input("labels", classes=dims[-1]), scores)
    net, batch = cn.Network(J, layout="rows"), {node.name: x, "labels": labels}
    module = nn.Sequential(*layers, nn.Linear(dims[-2], dims[-1]))
    return {
        "ours": lambda: net.backward(batch),
        "PyTorch": gradients(module, torch.from_numpy(x), torch.from_numpy(labels)),
    }


class LastFrames(nn.Module):
    """nn.LSTM, with a layer above all frames."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.out = nn.LSTM(INPUTS, CELLS), nn.Linear(CELLS, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.out(self.lstm(x)[0])
        return found.flatten(0, 1)


def _lstms(
    rng: np.random.Generator, *, is_one_node: bool = False
) -> tuple[cn.Network, dict[str, cn.Sequences], nn.Module, Tensor, Tensor]:
    """LSTMs over 16 sequences of 100 frames (ours of nodes has peepholes), what they are given, and labels."""
    x = rng.normal(size=(SEQUENCES, INPUTS, FRAMES)).astype(np.float32)
    labels = rng.integers(0, CLASSES, (SEQUENCES, FRAMES))
    x_node = cn.input("x", INPUTS)
    h = cn.macros.fast_lstm(x_node, CELLS) if is_one_node else cn.macros.lstm(x_node, CELLS).h
    scores = cn.macros.affine(h, CLASSES, name="scores")
    criterion = cn.cross_entropy_with_softmax(cn.input("labels", classes=CLASSES), scores)
    net = cn.Network(criterion, {"scores": scores})
    batch = {"x": cn.sequences(x), "labels": cn.sequences(labels)}
    theirs = torch.from_numpy(x.transpose(2, 0, 1).copy())
    return net, batch, LastFrames(), theirs, torch.from_numpy(labels.T.copy()).flatten()


def lstm(rng: np.random.Generator, *, is_one_node: bool = False) -> Pair:
    net, batch, module, x, labels = _lstms(rng, is_one_node=is_one_node)
    return {"ours": lambda: net.backward(batch), "PyTorch": gradients(module, x, labels)}


def lstm_forward(rng: np.random.Generator) -> Pair:
    net, batch, module, x, _ = _lstms(rng)

    def ours() -> None:
        batch["x"][0][0, 0] += 1  # so that nothing known can be used again
        net.evaluate("scores", batch)

    def theirs() -> None:
        with torch.no_grad():
            module(x)

    return {"ours": ours, "PyTorch": theirs}


def cnn(rng: np.random.Generator, channels_made: Sequence[int]) -> Pair:
    """Convolutions of 3 x 3 with pooling, of 64 images."""
    x, labels = rng.normal(size=(64, *IMAGE)).astype(np.float32), rng.integers(0, CLASSES, 64)
    rows, cols, channels = IMAGE
    h, image, layers = cn.input("x", rows * cols * channels), IMAGE, list[nn.Module]()
    for number, wanted in enumerate(channels_made):
        kernels = cn.parameter(f"K{number}", (wanted, 9 * image[2]))
        bias = cn.parameter(f"b{number}", (wanted, 1))
        h = cn.relu(cn.convolution(kernels, h, bias, image=image, window=3, pad=True))
        layers += [nn.Conv2d(image[2], wanted, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
        h = cn.max_pooling(h, image=(image[0], image[1], wanted), window=2, stride=2)
        image = (image[0] // 2, image[1] // 2, wanted)
    scores = cn.macros.affine(h, CLASSES, name="scores")
    net = cn.Network(cn.cross_entropy_with_softmax(cn.input("labels", classes=CLASSES), scores), layout="rows")
    batch = {"x": x.reshape(64, -1), "labels": labels}
    module = nn.Sequential(*layers, nn.Flatten(), nn.Linear(image[0] * image[1] * image[2], CLASSES))
    theirs = torch.from_numpy(x.transpose(0, 3, 1, 2).copy())
    return {
        "ours": lambda: net.backward(batch),
        "PyTorch": gradients(module, theirs, torch.from_numpy(labels)),
    }


def embedding(rng: np.random.Generator) -> Pair:
    """The mean of the embeddings of 64 sentences of 20 words, out of 100,000."""
    words, labels = rng.integers(0, WORDS, (64, 20)), rng.integers(0, CLASSES, 64)
    chosen = cn.embedding(cn.parameter("E", (DIM, WORDS), seed=0), cn.input("words", classes=WORDS))
    scores = cn.macros.affine(cn.sequence.mean(chosen), CLASSES, name="scores")
    label = cn.input("label", classes=CLASSES, axis="sequence")
    net = cn.Network(cn.cross_entropy_with_softmax(label, scores))
    batch = {"words": cn.sequences(words), "label": labels}
    net.backward(batch)
    gradient = net.tensors()["E"].grad
    assert gradient is not None
    assert gradient.is_sparse
    module = nn.Sequential(nn.EmbeddingBag(WORDS, DIM, mode="mean", sparse=True), nn.Linear(DIM, CLASSES))
    return {
        "ours": lambda: net.backward(batch),
        "PyTorch": gradients(module, torch.from_numpy(words), torch.from_numpy(labels)),
    }


CASES: dict[str, Callable[[np.random.Generator], Pair]] = {
    "MLP 20-32-5, 32 samples": partial(mlp, minibatch=32, dims=(20, 32, 5)),
    "MLP 1024 x 3, 256 samples": partial(mlp, minibatch=256, dims=(1024, 1024, 1024, 1024, CLASSES)),
    "LSTM 512, 16 x 100": lstm,
    "LSTM 512, 16 x 100, forward": lstm_forward,
    "LSTM 512, 16 x 100, as one node": partial(lstm, is_one_node=True),
    "CNN 32 and 64, 64 images": partial(cnn, channels_made=(32, 64)),
    "embedding, 100,000 words": embedding,
}


def main() -> None:
    torch.set_num_threads(1)
    print(f"{'network':<30}{'ours':>10}{'PyTorch':>10}{'ratio':>8}")
    for name, make in CASES.items():
        times = least_times(make(np.random.default_rng(0)))
        ratio = times["ours"] / times["PyTorch"]
        print(f"{name:<30}{1000 * times['ours']:>7.1f} ms{1000 * times['PyTorch']:>7.1f} ms{ratio:>8.2f}", flush=True)


if __name__ == "__main__":
    main()
