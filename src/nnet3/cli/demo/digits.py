"""Scanned handwritten digits (scikit-learn's bundled `load_digits`): columns are frames, rows are features."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from nnet3.cli.demo.task import DemoTask, RateSchedule
from nnet3.errors import Nnet3Error
from nnet3.training.train.minibatch import MatrixTarget, Minibatch, NetworkInput, grid, one_hot

_NUM_COLUMNS = 8
_BATCH = 64


def digit_tasks(seed: int) -> list[DemoTask]:
    """Returns a TDNN and an LSTM on the same two thirds of the images, judged on the other third."""
    try:
        from sklearn.datasets import load_digits
        from sklearn.model_selection import train_test_split
    except ImportError:
        raise Nnet3Error("the demo needs scikit-learn and matplotlib: pip install 'nnet3[demo]'") from None
    data = load_digits()
    images = (data.images / 16.0).astype(np.float32)  # (image, row, column)
    train, test, train_labels, test_labels = train_test_split(
        images, data.target, test_size=1 / 3, stratify=data.target, random_state=0
    )

    def task(name: str, config: str, what: str, output_time: int, schedule: RateSchedule) -> DemoTask:
        rng = np.random.default_rng(seed)
        return DemoTask(
            name=name,
            config=config,
            what=what,
            schedule=schedule,
            make_minibatches=lambda epoch: _minibatches(train, train_labels, output_time, rng.permutation(len(train))),
            test_minibatches=[_minibatch(test, test_labels, output_time)],
            judge=lambda outputs: np.concatenate(list(outputs)),
            labels=test_labels,
            pictures=test,
            goal=0.96,
        )

    tdnn = RateSchedule(num_epochs=12, initial_learning_rate=0.01, final_learning_rate=0.001)
    lstm = RateSchedule(num_epochs=24, initial_learning_rate=0.05, final_learning_rate=0.002)
    return [
        task("tdnn", "digits_tdnn.config", "a TDNN sees all columns of an image at its middle frame", 4, tdnn),
        task("lstm", "digits_lstm.config", "an LSTM reads an image column by column and answers at the last", 7, lstm),
    ]


def _minibatches(images: np.ndarray, labels: np.ndarray, output_time: int, order: np.ndarray) -> list[Minibatch]:
    """Returns full minibatches of the images in their order; the rest is left out."""
    rows = [order[start : start + _BATCH] for start in range(0, len(order) - _BATCH + 1, _BATCH)]
    return [_minibatch(images[chosen], labels[chosen], output_time) for chosen in rows]


def _minibatch(images: np.ndarray, labels: np.ndarray, output_time: int) -> Minibatch:
    frames = torch.from_numpy(np.ascontiguousarray(images.transpose(0, 2, 1)).reshape(-1, images.shape[1]))
    times: Sequence[int] = range(_NUM_COLUMNS)
    return Minibatch(
        [NetworkInput("input", grid(len(images), times), frames)],
        [MatrixTarget("output", grid(len(images), [output_time]), one_hot(labels, 10))],
    )
