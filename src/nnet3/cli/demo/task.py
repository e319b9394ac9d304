"""A task of the demo: a network's config, its data, and how it is judged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import resources

import numpy as np

from nnet3.training.train.minibatch import Minibatch


@dataclass(frozen=True)
class RateSchedule:
    """Epochs and learning rate, which falls from the first to the last minibatch in equal ratios."""

    num_epochs: int
    initial_learning_rate: float
    final_learning_rate: float


@dataclass(frozen=True)
class DemoTask:
    """A network to train and test.

    `make_minibatches(epoch)` gives training data; `judge(outputs)` iterations the outputs of the test minibatches, one
    matrix each, into scores (examples, classes).
    """

    name: str  # of the network, and of its folder
    config: str  # file in configs/
    what: str  # of one sentence
    schedule: RateSchedule
    make_minibatches: Callable[[int], Sequence[Minibatch]]
    test_minibatches: Sequence[Minibatch]
    judge: Callable[[Sequence[np.ndarray]], np.ndarray]
    labels: np.ndarray  # (examples,) true class of each test example
    pictures: Sequence[np.ndarray]  # what each test example looks like: rows are features, columns are frames
    goal: float  # the accuracy that it should reach

    @property
    def config_text(self) -> str:
        return (resources.files("nnet3.cli.demo") / "configs" / self.config).read_text(encoding="utf-8")
