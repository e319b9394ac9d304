"""A matcher of scanned digits: two images go through one tower, and the cosine says whether they show one digit."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from digits import Digits, scanned_digits

from nnet3 import cn


def network(dim: int = 24) -> cn.Network:
    """`match` is 1 or 0 for each pair: vectors of different digits are to be at right angles.

    Both towers share their parameters, by being made of the same nodes.
    """
    left, right, match = cn.input("left", 64), cn.input("right", 64), cn.input("match", 1)
    W1, b1 = cn.parameter("W1", (128, 64)), cn.parameter("b1", (128, 1))
    W2 = cn.parameter("W2", (dim, 128))

    def tower(image: cn.Node) -> cn.Node:
        return W2 @ cn.relu(W1 @ image + b1)

    similarity = cn.cos(tower(left), tower(right), name="similarity")
    return cn.Network(cn.square_error(similarity, match, name="J"), {"similarity": similarity})


def pairs(data: Digits, rng: np.random.Generator, size: int) -> dict[str, np.ndarray]:
    """Half of the pairs show the same digit."""
    first = rng.integers(data.x.shape[1], size=size)
    second = rng.integers(data.x.shape[1], size=size)
    for place in range(0, size, 2):
        second[place] = rng.choice(np.flatnonzero(data.digits == data.digits[first[place]]))
    same = data.digits[first] == data.digits[second]
    return {"left": data.x[:, first], "right": data.x[:, second], "match": same[None].astype(np.float32)}


def run(steps: int = 1000) -> float:
    train, test = scanned_digits()
    net, rng = network(), np.random.default_rng(0)

    def minibatches() -> Iterator[dict[str, np.ndarray]]:
        return (pairs(train, rng, 128) for _ in range(steps))

    cn.train(net, minibatches, torch.optim.Adam(list(net.tensors().values()), lr=2e-3))
    judged = pairs(test, np.random.default_rng(1), 2000)
    found = float(((net.evaluate("similarity", judged) > 0.5) == (judged["match"] > 0.5)).mean())
    print(f"cosine matcher: {100 * found:.2f} % of the test pairs right")
    return found


if __name__ == "__main__":
    run()
