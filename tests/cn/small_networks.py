"""A batch and small networks over it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from nnet3 import cn
from nnet3.cn.roots import Criteria, Outputs
from tests.seeds import RANDOM

WORDS = 12  # in bags


def network(criterion: Criteria = None, outputs: Outputs = None) -> cn.Network:
    return cn.Network(criterion, outputs, dtype=torch.float64)


def one_hidden_layer() -> tuple[cn.Network, dict[str, np.ndarray]]:
    x, labels = cn.input("x", 3), cn.input("labels", 2)
    W, b, V = cn.parameter("W", (4, 3)), cn.parameter("b", (4, 1), 0.1), cn.parameter("V", (2, 4))
    o = V @ cn.sigmoid(W @ x + b, name="hidden")
    J = cn.cross_entropy_with_softmax(labels, o, name="J")
    net = network(J, {"posterior": cn.softmax(o)})
    return net, {"x": RANDOM.normal(size=(3, 5)), "labels": np.eye(2)[:, [0, 1, 0, 1, 0]]}


def batch(rows: int, lengths: Sequence[int] = (4, 2, 3)) -> cn.Sequences:
    return cn.sequences([RANDOM.normal(size=(rows, length)) for length in lengths])


def recurrence(lag: int = 1, default: float = 0.0, initial: cn.Node | None = None) -> cn.Network:
    x = cn.input("x", 3)
    d = cn.delay(None, lag, default, dim=4, name="d", initial=initial)
    h = d.connect(cn.tanh(cn.parameter("W", (4, 3)) @ x + cn.parameter("R", (4, 4)) @ d, name="h"))
    return network(cn.square_error(cn.parameter("V", (2, 4)) @ h, cn.input("y", 2), name="J"), {"h": h})


def lstm(carry: bool) -> cn.Network:
    x, y = cn.input("x", 3), cn.input("y", 2)
    nodes = cn.macros.lstm(x, 4, carry=carry)
    J = cn.square_error(cn.macros.affine(nodes.h, 2, name="out"), y, name="J")
    return cn.Network(J, {"h": nodes.h}, dtype=torch.float64)


def bag_classifier(is_sparse: bool, *, layout: str = "columns", sparse: bool = True) -> cn.Network:
    """A classifier of bags of words, with one hidden layer; its input is declared sparse or not."""
    x, label = cn.input("x", WORDS, sparse=is_sparse), cn.input("label", classes=3)
    W = cn.parameter("W", (4, WORDS))
    product = cn.embedding(W, x, sparse=sparse) if is_sparse else W @ x
    h = cn.tanh(product + cn.parameter("b", (4, 1)), name="h")
    J = cn.cross_entropy_with_softmax(label, cn.macros.affine(h, 3, name="scores"), name="J")
    return cn.Network(J, {"h": h}, dtype=torch.float64, layout=layout)


def few_elements(columns: int, rows: int = WORDS) -> np.ndarray:
    """A matrix of which most elements are 0."""
    return np.where(RANDOM.random((rows, columns)) < 0.2, RANDOM.normal(size=(rows, columns)), 0.0)
