"""Random networks of whole sequences on several axes: values, and gradients of all nodes, are those of PyTorch."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
import torch

from nnet3 import cn
from nnet3.cn.node import Node
from tests.cn.staged_reference import REDUCTIONS, compare_stages
from tests.effort import draws

WORDS = 5
KINDS = (
    "one",
    "two",
    "times",
    "reduce",
    "softmax",
    "reverse",
    "broadcast",
    "gather",
    "embed",
    "bag",
    "attend",
    "lstm",
    "delay",
)


class Stages:
    """Draws nodes of two rows one after the other; `pool` holds what may be an operand."""

    def __init__(self, seed: int) -> None:
        self.random, self.rng = Random(seed), np.random.default_rng(seed)
        self.words = [cn.input("w", classes=WORDS), cn.input("v", classes=WORDS, axis="other")]
        self.bags = [cn.input("bag", WORDS, sparse=True), cn.input("sack", WORDS, sparse=True, axis="other")]
        self.pool: list[Node] = [cn.input("x", 2), cn.input("y", 2, axis="other")]
        self.known: dict[tuple[int, int], list[Node]] = {}

    def parameter(self, rows: int, cols: int) -> Node:
        """A parameter of this shape, sometimes one that is used already."""
        known = self.known.setdefault((rows, cols), [])
        if not known or self.random.random() < 0.3:
            name = f"P{rows}{cols}_{len(known)}"
            known.append(cn.parameter(name, (rows, cols), self.rng.normal(size=(rows, cols))))
        return self.random.choice(known)

    def like(self, node: Node) -> Node:
        return self.random.choice([each for each in self.pool if each.shape.axis == node.shape.axis])

    def made(self) -> Node:
        choose, x = self.random.choice, self.random.choice(self.pool)
        kind = choose(KINDS)
        if kind == "two":
            return choose((cn.plus, cn.minus, cn.element_times))(x, choose((self.like(x), self.parameter(2, 1))))
        if kind == "times":
            return self.parameter(2, 2) @ x
        if kind == "reduce":
            return getattr(cn.sequence, choose(list(REDUCTIONS)))(x)
        if kind in ("softmax", "reverse"):
            return getattr(cn.sequence, kind)(x)
        if kind == "broadcast":
            return cn.broadcast_as(cn.sequence.last(x), choose(self.pool))
        if kind == "gather":
            return cn.sequence.gather(x, choose(self.words))
        if kind in ("embed", "bag"):
            table = choose((self.parameter(2, WORDS), self.parameter(2, WORDS), cn.tanh(self.parameter(2, WORDS))))
            chosen = choose(self.words if kind == "embed" else self.bags)
            return cn.embedding(table, chosen, sparse=choose((True, False)))
        if kind == "attend":
            return cn.attention(x, *[choose(self.pool)] * 2)
        if kind == "lstm":
            weights = [self.parameter(8, 2), self.parameter(8, 2), self.parameter(8, 1)]
            return cn.lstm_layer(x, *weights, reverse=choose((True, False)))
        return cn.delay(x, choose((1, -1, -2))) if kind == "delay" else choose((cn.tanh, cn.sigmoid, cn.softmax))(x)

    def network(self) -> cn.Network:
        for _ in range(self.random.randint(3, 9)):
            self.pool.append(self.made())
        own = self.random.sample(self.pool, 3)
        criteria = {cn.squared_norm(cn.tanh(node)): weight for node, weight in zip(own, (1.0, -0.5, 0.3), strict=True)}
        return cn.Network({**criteria, cn.squared_norm(self.parameter(2, WORDS)): 0.1}, dtype=torch.float64)

    def batch(self, network: cn.Network) -> dict[str, cn.Sequences]:
        """Sequences, of which one may be empty on either axis."""
        number, found = self.random.randint(1, 4), {}
        for names in (("w", "x", "bag"), ("v", "y", "sack")):
            lengths = [self.random.randint(1, 5), *(self.random.randint(0, 5) for _ in range(number - 1))]
            self.random.shuffle(lengths)
            found[names[0]] = cn.sequences([self.rng.integers(-1, WORDS, size=(1, length)) for length in lengths])
            found[names[1]] = cn.sequences([self.rng.normal(size=(2, length)) for length in lengths])
            found[names[2]] = cn.sequences([self.rng.poisson(0.3, size=(WORDS, length)) for length in lengths])
        return {node.name: found[node.name] for node in network.inputs}


@pytest.mark.parametrize("seed", range(draws(4)))
def test_values_and_gradients(seed: int) -> None:
    """Of minibatches of other lengths one after the other, and where something is frozen."""
    stages = Stages(seed)
    network = stages.network()
    for _ in range(2):
        compare_stages(network, stages.batch(network))
    network.freeze(stages.random.choice(list(network.tensors())))
    compare_stages(network, stages.batch(network))
