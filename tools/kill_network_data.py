"""A computational network in training that is to be killed: momentum, dropout, batch-norm, a reader, processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from nnet3 import cn

SCRIPT = """
from tools.kill_network_data import train

train({folder!r})
"""


def write_network_task(folder: Path) -> dict[str, Path]:
    """A script that trains; returns it by name."""
    path = folder / "network.py"
    path.write_text(SCRIPT.format(folder=str(folder / "network")))
    return {"network": path}


def network() -> cn.Network:
    """An LSTM over frames, with a class for each."""
    x, label = cn.input("x", 5), cn.input("label", classes=3)
    h = cn.dropout(0.2, cn.batch_norm(cn.macros.lstm(x, 6).h, name="norm"))
    scores = cn.macros.affine(h, 3, name="scores")
    J = cn.cross_entropy_with_softmax(label, scores, name="J")
    return cn.Network(J, {"errors": cn.classification_error(label, scores)})


def train(folder: str) -> None:
    """Train in the folder, or go on there."""
    random = np.random.default_rng(4)
    labels = [random.integers(0, 3, size=length) for length in random.integers(2, 6, size=40)]
    frames = [np.eye(5)[:, each] + random.normal(size=(5, len(each))) for each in labels]
    reader = cn.Minibatches({"x": frames, "label": labels}, 30)
    options: dict[str, Any] = {
        "momentum": 0.5,
        "natural_gradient": True,
        "max_change": 0.1,
        "checkpoint_every": 3,
        "print_every": 4,
    }
    cn.train(
        network(), reader, learning_rate=(0.5, 0.05), epochs=3, metrics=["errors"], validation=[reader.batch([0, 1])],
        folder=folder, resume=True, curves=False, tensorboard=False, **options,
    )  # fmt: skip
