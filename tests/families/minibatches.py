"""Recurrent computational networks, and minibatches of sequences for them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnet3 import cn
from nnet3.cn.node import Node
from tests.seeds import shifted


def minibatch(network: cn.Network, lengths: Sequence[int]) -> dict[str, cn.Sequences]:
    rng = np.random.default_rng(shifted(len(lengths)))
    frames = {node: [abs(lag)] * len(lengths) for node, lag in network.initial_states.items()}
    return {
        node.name: cn.sequences([rng.normal(size=(node.shape.rows, count)) for count in frames.get(node, lengths)])
        for node in network.inputs
    }


def recurrence(lag: int, kind: str) -> tuple[Node, list[Node]]:
    """A layer that is recurrent in one direction or in both, with a classifier on top."""
    x, labels = cn.input("x", 3), cn.input("labels", 2)
    if kind == "both ways":
        h = cn.macros.blstm(cn.macros.blstm(x, 2), 3, name="top")
    else:
        h = cn.macros.lstm(x, 3, lag=lag, carry=kind == "carried").h
    if kind == "late":
        h = cn.row_stack(h, cn.delay(h, lag))
    out = cn.macros.affine(h, 2, name="out")
    return cn.cross_entropy_with_softmax(labels, out, name="J"), [out]
