"""Data sets in minibatches: everything once an epoch, so many frames at most, what belongs together together."""

from __future__ import annotations

import numpy as np
import pytest

from nnet3 import cn
from nnet3.errors import TrainingError

LENGTHS = (5, 2, 9, 1, 3, 3, 12, 4)
DATA = {
    "x": [np.full((2, length), number) for number, length in enumerate(LENGTHS)],
    "label": np.arange(len(LENGTHS)),
}


@pytest.mark.parametrize("similar", [False, True])
@pytest.mark.parametrize("shuffle", [False, True])
def test_all_sequences_once_in_minibatches_of_so_many_frames(shuffle, similar):
    reader, orders = cn.Minibatches(DATA, 10, shuffle=shuffle, similar=similar), []
    for _ in range(2):
        batches, order = list(reader()), []
        for batch in batches:
            assert sum(batch["x"].lengths) <= 10 or len(batch["x"]) == 1
            assert [int(value[0, 0]) for value in batch["x"]] == batch["label"][0].tolist()
            assert [LENGTHS[number] for number in batch["label"][0]] == list(batch["x"].lengths)
            order += batch["label"][0].tolist()
        assert sorted(order) == list(range(len(LENGTHS)))
        orders.append(order)
    assert (orders[0] == orders[1]) != shuffle
    again = cn.Minibatches(DATA, 10, shuffle=shuffle, similar=similar)
    assert [n for batch in again() for n in batch["label"][0].tolist()] == orders[0]


def test_rows_first_and_words():
    reader = cn.Minibatches({"x": [np.ones((3, 2))], "words": [[1, 2, 0]]}, 10, layout="rows")
    (batch,) = reader()
    assert batch["x"][0].shape == (2, 3)
    batch = cn.Minibatches({"words": [[1, 2, 0], [3]], "y": np.ones((4, 2))}, 10).batch([1])
    assert (batch["words"][0].tolist(), batch["y"].shape) == ([[3]], (4, 1))


@pytest.mark.parametrize(
    ("data", "frames", "says"),
    [
        ({"x": [np.ones((2, 3))], "label": np.arange(2)}, 5, "equally many of everything, got 1 of 'x', 2 of 'label'"),
        ({"label": np.arange(2)}, 5, "a list of sequences at least"),
        ({"x": [], "label": []}, 5, "a list of sequences at least"),
        ({"x": [np.ones((2, 3))]}, 0, "and a minibatch a frame"),
    ],
)
def test_data_that_cannot_be_packed(data, frames, says):
    with pytest.raises(TrainingError, match=says):
        cn.Minibatches(data, frames)


def test_a_network_learns_from_it():
    x, label = cn.input("x", 2), cn.input("label", classes=8, axis="sequence")
    scores = cn.macros.affine(cn.sequence.mean(x), 8, name="a")
    net = cn.Network(cn.cross_entropy_with_softmax(label, scores))
    history = cn.train(net, cn.Minibatches(DATA, 20), learning_rate=0.03, epochs=20)
    assert history[-1] < history[0]


@pytest.mark.parametrize("kind", [np.int64, np.float64])
def test_a_network_of_rows_gets_rows(kind) -> None:
    """What belongs to whole sequences, too: labels, and several numbers each."""
    data = {"x": [np.full((n, 2), n) for n in (3, 1, 2)], "label": np.arange(3), "y": np.arange(12).reshape(3, 4)}
    axis = {"axis": "sequence"}
    x, label, y = cn.input("x", 2), cn.input("label", classes=3, **axis), cn.input("y", 4, **axis)
    total = cn.row_stack(cn.sequence.last(x), y)
    J = cn.cross_entropy_with_softmax(label, cn.row_slice(y, 0, 3))
    net = cn.Network(J, {"total": total}, layout="rows")
    (batch,) = cn.Minibatches({**data, "y": data["y"].astype(kind)}, 6, shuffle=False, layout="rows")()
    expected = np.concatenate([[[3, 3], [1, 1], [2, 2]], data["y"]], 1)
    np.testing.assert_array_equal(net.evaluate("total", batch), expected)
    assert np.isfinite(net.criterion(batch))
