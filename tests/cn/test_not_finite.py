"""Criteria that are not finite: nothing is learnt, and the message says where it began."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from nnet3 import cn
from nnet3.cn.differentiation import Counted
from nnet3.errors import TrainingError
from tests.seeds import RANDOM

NAN, INFINITE = float("nan"), float("inf")


def network(**options) -> cn.Network:
    x, y = cn.input("x", 3), cn.input("y", 2)
    h = cn.log(cn.parameter("W", (4, 3), np.eye(4, 3)) @ x + cn.parameter("b", (4, 1), 1.0), name="h")
    return cn.Network(cn.square_error(cn.parameter("V", (2, 4)) @ h, y, name="J"), dtype=torch.float64, **options)


def minibatch() -> dict[str, np.ndarray]:
    return {"x": RANDOM.uniform(0, 1, (3, 6)), "y": RANDOM.normal(size=(2, 6))}


def changed(array: np.ndarray, place: tuple[int, int], value: float) -> np.ndarray:
    array = array.copy()
    array[place] = value
    return array


def assert_refused(net: cn.Network, batches: list, says: str) -> None:
    """By each way to train, and nothing is changed."""
    before = net.parameters()
    for make in (None, torch.optim.Adam, torch.optim.LBFGS):
        optimizer = None if make is None else make(list(net.tensors().values()))
        with pytest.raises(TrainingError, match=says):
            cn.train(net, batches, optimizer, learning_rate=0.0)
        for name, value in net.parameters().items():
            np.testing.assert_array_equal(value, before[name])


def test_an_input_that_is_not_finite_is_named_with_its_place() -> None:
    net, batch = network(), minibatch()
    says = "epoch 1, after 0 samples: the criterion is nan: input '{}' holds nan in column {}, row {}$"
    x, y = (changed(batch[name], place, NAN) for name, place in (("x", (2, 5)), ("y", (1, 4))))
    assert_refused(net, [{**batch, "x": changed(x, (1, 3), NAN)}], says.format("x", 3, 1))
    assert_refused(net, [{**batch, "y": y}], says.format("y", 4, 1))
    too_large = {**batch, "y": changed(batch["y"], (0, 2), -INFINITE)}
    assert_refused(net, [too_large], "the criterion is inf: input 'y' holds inf in column 2, row 0$")
    with pytest.raises(TrainingError, match=r"^the criterion is nan: input 'x' holds nan in column 5, row 2$"):
        cn.sgd_step(net, {**batch, "x": x}, 0.1)
    with pytest.raises(TrainingError, match="epoch 1, after 12 samples: the criterion is nan: input 'x'"):
        cn.train(net, [batch, batch, {**batch, "x": x}])


@pytest.mark.parametrize("value", [NAN, INFINITE])
def test_a_parameter_that_is_not_finite_is_named_with_its_place(value) -> None:
    net, batch = network(), minibatch()
    net.set_parameters({"V": changed(net.parameters()["V"], (1, 2), value)})
    assert_refused(net, [batch], f"parameter 'V' holds {value} in column 2, row 1; a smaller learning rate may help")


def test_the_first_node_that_is_not_finite_is_named() -> None:
    net, batch = network(), minibatch()
    assert_refused(
        net,
        [{**batch, "x": changed(batch["x"], (1, 4), -1.5)}],
        r"the criterion is nan: 'h' \(log\) is the first node that holds nan, in column 4, row 1$",
    )
    assert_refused(
        net,
        [{**batch, "x": changed(batch["x"], (1, 4), -1.0)}],
        r"the criterion is inf: 'h' \(log\) is the first node that holds inf, in column 4, row 1; a smaller learning",
    )


@pytest.mark.parametrize(("lag", "column", "node"), [(1, 1, "h"), (-1, 3, "h")])
def test_nodes_of_a_loop(lag, column, node) -> None:
    """The first frame in the direction of the loop, wherever the NaN has gone from there."""
    x = cn.input("x", 1)
    d = cn.delay(None, lag, dim=1, name="d")
    h = d.connect(cn.plus(cn.log(x + d, name="log"), cn.scale(0.0, d), name=node))
    net = cn.Network(cn.l2_norm(cn.parameter("w", (1, 1), 1.0) @ h), dtype=torch.float64)
    bad = changed(changed(np.full((1, 5), 3.0), (0, 1), -100.0), (0, 3), -100.0)
    batch = {"x": cn.sequences([np.full((1, 5), 3.0), bad])}
    says = rf"'log' \(log\) is the first node that holds nan, in column {column} of sequence 1, row 0"
    assert_refused(net, [batch], says)


def test_gradients_of_finite_criteria() -> None:
    """A square root by hand has no slope at 0; a sum of large values may be too large."""
    x = cn.input("x", 3)
    root = cn.exp(cn.scale(0.5, cn.log(cn.parameter("W", (1, 3), 0.0) @ x, name="l")), name="root")
    net = cn.Network(cn.sum_elements(root), dtype=torch.float64)
    says = r"the criterion is 0, but the gradient of 'times1' \(times\) is the first that is not finite, in column 0"
    assert_refused(net, [{"x": np.ones((3, 2))}], says)
    large = cn.Network(cn.sum_elements(4 * (cn.parameter("V", (1, 3), 0.0) @ x)))
    says = "the criterion is 0, but the gradient of 'V' is not finite in column 1, row 0"
    assert_refused(large, [{"x": np.array([[1.0, 1], [3e38, 3e38], [1, 1]])}], says)


def test_what_goes_wrong_in_training_alone() -> None:
    """Dropout makes a number too large that is none in test mode; batch-norm has no statistics yet."""
    x = cn.input("x", 3)
    normed = cn.component("BatchNormComponent dim=3", x, name="normed")
    net = cn.Network(cn.sum_elements(cn.dropout(0.9, cn.exp(88.0 * (x + normed * 0.0)), name="drop")))
    says = r"the criterion is inf: 'drop' \(dropout\) is the first node that holds inf, in column \d+, row \d"
    net_of = cn.Network(cn.sum_elements(net.find("drop")) + cn.l2_norm(cn.parameter("W", (2, 2))))
    assert_refused(net_of, [{"x": np.ones((3, 400))}], says)


def test_what_no_second_look_finds(monkeypatch) -> None:
    """A mask of dropout does not come again: the criterion is refused all the same."""
    net, batch = network(), minibatch()
    monkeypatch.setattr(type(net), "backward_per_sample", lambda *_, **__: {"criterion": Counted(NAN, 1)})
    assert_refused(net, [batch], "the criterion is nan: a smaller learning rate may help$")
