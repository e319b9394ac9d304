"""The scanned digits of scikit-learn as columns: two thirds to train on, one third to test on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from nnet3 import cn


@dataclass(frozen=True)
class Digits:
    """`x`: 64 x images, pixels from 0 to 1; `labels`: 10 x images, a 1 in the row of the digit."""

    x: np.ndarray
    labels: np.ndarray

    @property
    def digits(self) -> np.ndarray:
        return self.labels.argmax(0)

    def batch(self, chosen: np.ndarray | slice = slice(None)) -> dict[str, np.ndarray]:
        return {"x": self.x[:, chosen], "labels": self.labels[:, chosen]}

    def minibatches(self, rng: np.random.Generator, size: int = 64) -> Iterator[dict[str, np.ndarray]]:
        """All images in a new order, in full minibatches."""
        order = rng.permutation(self.x.shape[1])
        for start in range(0, len(order) - size + 1, size):
            yield self.batch(order[start : start + size])


def scanned_digits() -> tuple[Digits, Digits]:
    data = load_digits()
    train, test = train_test_split(np.arange(len(data.target)), test_size=1 / 3, stratify=data.target, random_state=0)
    x = (data.images / 16).reshape(-1, 64).T.astype(np.float32)
    labels = np.eye(10, dtype=np.float32)[:, data.target]
    return Digits(x[:, train], labels[:, train]), Digits(x[:, test], labels[:, test])


def accuracy(network: cn.Network, data: Digits) -> float:
    """The part of the images whose class is right; the network has an output `errors`."""
    return 1 - float(network.evaluate("errors", data.batch())) / data.x.shape[1]
