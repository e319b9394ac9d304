"""Scanned digits of the demo: columns are frames, one label an image, each image in one part."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
import torch

from nnet3.cli.demo.digits import digit_tasks
from nnet3.model.nnet import Nnet

pytestmark = pytest.mark.skipif(find_spec("sklearn") is None, reason="the digits are those of scikit-learn")


def _scanned() -> Any:
    from sklearn.datasets import load_digits

    return load_digits()


def test_what_is_trained_and_how() -> None:
    tdnn, lstm = digit_tasks(seed=1)
    assert (tdnn.name, lstm.name) == ("tdnn", "lstm")
    assert (tdnn.schedule.num_epochs, lstm.schedule.num_epochs) == (12, 24)
    rates = [(task.schedule.initial_learning_rate, task.schedule.final_learning_rate) for task in (tdnn, lstm)]
    assert rates == [(0.01, 0.001), (0.05, 0.002)]
    assert (tdnn.goal, lstm.goal) == (0.96, 0.96)
    assert all(Nnet.from_config(task.config_text).output_dims == {"output": 10} for task in (tdnn, lstm))
    assert "sees all columns" in tdnn.what
    assert "column by column" in lstm.what


def test_a_third_of_each_digit_is_for_the_test() -> None:
    (task, other) = digit_tasks(seed=1)
    counts = np.bincount(_scanned().target)
    np.testing.assert_allclose(np.bincount(task.labels), counts / 3, atol=1)
    assert len(task.labels) == len(task.pictures) == 599
    np.testing.assert_array_equal(task.labels, other.labels)
    np.testing.assert_array_equal(task.pictures, other.pictures)


@pytest.mark.parametrize(("which", "time"), [(0, 4), (1, 7)])
def test_a_minibatch_is_images_and_their_digits(which: int, time: int) -> None:
    task = digit_tasks(seed=1)[which]
    (minibatch,) = task.test_minibatches
    (given,), (wanted,) = minibatch.inputs, minibatch.targets
    assert (given.name, wanted.name) == ("input", "output")
    columns = np.asarray(given.matrix).reshape(599, 8, 8)
    np.testing.assert_array_equal(columns.transpose(0, 2, 1), task.pictures)
    assert (columns.min(), columns.max()) == (0.0, 1.0)
    assert np.asarray(given.indexes)[:9].tolist() == [*([0, t, 0] for t in range(8)), [1, 0, 0]]
    assert np.asarray(wanted.indexes).tolist() == [[n, time, 0] for n in range(599)]
    assert wanted.matrix.ids.tolist() == task.labels.tolist()
    assert wanted.matrix.shape == (599, 10)
    outputs = [torch.ones(2, 10), torch.zeros(1, 10)]
    assert task.judge([each.numpy() for each in outputs]).tolist() == [[1.0] * 10] * 2 + [[0.0] * 10]


def test_an_epoch_has_each_image_once_but_for_the_last_few() -> None:
    task = digit_tasks(seed=1)[0]
    epochs = [task.make_minibatches(number) for number in range(2)]
    assert [len(minibatches) for minibatches in epochs] == [18, 18]  # of 64, from 1198 images
    images = [
        np.concatenate([np.asarray(each.inputs[0].matrix).reshape(64, 64) for each in minibatches])
        for minibatches in epochs
    ]
    assert not np.array_equal(*images)
    pictures = _scanned().images.transpose(0, 2, 1).reshape(-1, 64) / 16
    known = {row.astype(np.float32).tobytes() for row in pictures}
    for each in images:
        assert {row.tobytes() for row in each} <= known
        assert len({row.tobytes() for row in each}) == 18 * 64
    again = digit_tasks(seed=1)[0].make_minibatches(0)[0]
    np.testing.assert_array_equal(again.inputs[0].matrix, epochs[0][0].inputs[0].matrix)
    other = digit_tasks(seed=2)[0].make_minibatches(0)[0]
    assert not np.array_equal(other.inputs[0].matrix, epochs[0][0].inputs[0].matrix)
