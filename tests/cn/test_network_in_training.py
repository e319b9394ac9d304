"""Steps of the trainer on computational networks: by hand, against PyTorch's, and against what criteria say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from nnet3 import cn
from nnet3.errors import TrainingError
from tests.seeds import RANDOM


def linear(value: float | None = None) -> tuple[cn.Network, dict[str, np.ndarray]]:
    """Square errors of a product, and an error count that is no part of the criterion."""
    x, y = cn.input("x", 3), cn.input("y", 2)
    W, b = cn.parameter("W", (2, 3), value), cn.parameter("b", (2, 1))
    o = cn.plus(W @ x, b, name="o")
    J = cn.square_error(o, y, name="J")
    far = cn.sum_elements(cn.greater(cn.sum_rows(cn.abs(o - y)), 1.0), name="far")
    X = RANDOM.normal(size=(3, 40))
    batch = {"x": X, "y": RANDOM.normal(size=(2, 3)) @ X + 0.5}
    return cn.Network(J, {"far": far}, dtype=torch.float64), batch


def values(net: cn.Network) -> dict[str, np.ndarray]:
    """Of the parameters that learn."""
    return {name: value for name, value in net.parameters().items() if name in ("W", "b")}


def slope(net: cn.Network, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The gradient of the mean over samples."""
    return {name: gradient / batch["x"].shape[1] for name, gradient in net.gradients(batch).items()}


def moved(net: cn.Network, before: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: value - before[name] for name, value in values(net).items()}


def parts(batch: dict[str, np.ndarray], *ends: int) -> list[dict[str, np.ndarray]]:
    return [{n: a[:, begin:end] for n, a in batch.items()} for begin, end in zip((0, *ends), (*ends, 40), strict=True)]


def test_momentum_is_the_formula() -> None:
    """theta += (1 - m) D with D = m D - rate g."""
    net, batch = linear()
    by_hand, D = net.copy(), dict.fromkeys(values(net), 0.0)
    cn.train(net, [batch] * 4, momentum=0.75, learning_rate=0.2)
    for _ in range(4):
        gradients = slope(by_hand, batch)
        D = {name: 0.75 * D[name] - 0.2 * gradients[name] for name in D}
        by_hand.set_parameters({name: value + 0.25 * D[name] for name, value in values(by_hand).items()})
    for name, value in values(net).items():
        np.testing.assert_allclose(value, values(by_hand)[name], rtol=1e-12)


@pytest.mark.parametrize("momentum", [0.0, 0.5])
def test_max_change_limits_parameters_and_the_whole(momentum: float) -> None:
    net, batch = linear()
    before, gradients = values(net), slope(net, batch)
    limits = {"W": {"max_change": 0.01}, "b": {"max_change": 0.02}}
    cn.train(net, [batch], learning_rate=100.0, momentum=momentum, parameters=limits)
    for name, change in moved(net, before).items():
        assert np.linalg.norm(change) == pytest.approx(limits[name]["max_change"])
        direction = -gradients[name] / np.linalg.norm(gradients[name])
        np.testing.assert_allclose(change / np.linalg.norm(change), direction, rtol=1e-9)
    before = values(net)
    cn.train(net, [batch], learning_rate=100.0, momentum=momentum, max_param_change=0.005, parameters=limits)
    change = moved(net, before)
    assert np.sqrt(sum((each**2).sum() for each in change.values())) == pytest.approx(0.005)
    assert np.linalg.norm(change["b"]) == pytest.approx(2 * np.linalg.norm(change["W"]))


@pytest.mark.parametrize("make", [None, torch.optim.SGD])
def test_clipping_is_pytorchs(make: Any) -> None:
    net, batch = linear()
    tensors = [torch.tensor(value.T, requires_grad=True) for value in values(net).values()]
    by_name = dict(zip(values(net), tensors, strict=True))
    for _ in range(3):
        o = torch.tensor(batch["x"].T) @ by_name["W"] + by_name["b"]
        gradients = torch.autograd.grad((o - torch.tensor(batch["y"].T)).square().sum() / 80, tensors)
        for tensor, gradient in zip(tensors, gradients, strict=True):
            tensor.grad = gradient
        assert float(torch.nn.utils.clip_grad_norm_(tensors, 0.3)) > 0.3
        with torch.no_grad():
            for tensor in tensors:
                tensor -= 0.1 * tensor.grad
    optimizer = None if make is None else make(net.tensors().values(), lr=0.1)
    cn.train(net, [batch] * 3, optimizer, learning_rate=0.1, clip_norm=0.3)
    for name, value in values(net).items():
        np.testing.assert_allclose(value, by_name[name].detach().numpy().T, atol=1e-6)  # it adds 1e-6


@pytest.mark.parametrize("make", [None, torch.optim.SGD])
@pytest.mark.parametrize("momentum", [0.0, 0.5])
def test_penalties_are_terms_of_the_criterion(make: Any, momentum: float) -> None:
    """l1 and l2 are what norms in the criterion are, and not part of what is told."""
    if make is not None and momentum:
        pytest.skip("optimizers have a momentum of their own")
    net, batch = linear()
    same = net.copy()
    J, W = same.find("J"), same.find("W")
    other = cn.Network({J: 1.0, cn.squared_norm(W): 0.03, cn.l1_norm(W): 0.02}, dtype=torch.float64)
    options: dict[str, Any] = {"learning_rate": 0.3, "epochs": 4, "momentum": momentum}
    optimizers = [None if make is None else make(each.tensors().values(), lr=0.3) for each in (net, other)]
    told = cn.train(net, [batch], optimizers[0], parameters={"W": {"l1": 0.02, "l2": 0.03}}, **options)
    cn.train(other, [batch], optimizers[1], **options)
    for name, value in values(net).items():
        np.testing.assert_allclose(value, values(other)[name], rtol=1e-10)
    assert len(told) == 4
    assert cn.train(net, [batch], learning_rate=0.0, l2=9.0) == [pytest.approx(net.criterion(batch) / 40)]


def test_rates_of_parameters() -> None:
    net, batch = linear()
    before, gradients = values(net), slope(net, batch)
    cn.train(net, [batch], learning_rate=0.5, learning_rate_factor=2.0, parameters={"b": {"learning_rate_factor": 0.0}})
    change = moved(net, before)
    np.testing.assert_allclose(change["W"], -gradients["W"], rtol=1e-10)
    assert not change["b"].any()


def test_backstitch_by_hand() -> None:
    """A step of -alpha, then one of 1 + alpha from there."""
    net, batch = linear()
    by_hand = net.copy()
    cn.train(net, [batch], learning_rate=0.2, backstitch_training_scale=0.3)
    for scale in (-0.3, 1.3):
        gradients = slope(by_hand, batch)
        by_hand.set_parameters({n: v - scale * 0.2 * gradients[n] for n, v in values(by_hand).items()})
    for name, value in values(net).items():
        np.testing.assert_allclose(value, values(by_hand)[name], rtol=1e-10)


def test_metrics_are_means_over_samples_beside_the_criterion() -> None:
    net, batch = linear()
    minibatches = parts(batch, 3, 20)
    history = cn.train(net, minibatches, learning_rate=0.0, epochs=2, metrics=["far"])
    assert history == pytest.approx([net.criterion(batch) / 40] * 2)
    assert history.metrics == {"far": pytest.approx([float(net.evaluate("far", batch)) / 40] * 2)}
    named = cn.train(net, minibatches, learning_rate=0.0, metrics={"share": net.find("far")})
    assert named.metrics == {"share": [pytest.approx(history.metrics["far"][0])]}


def test_what_is_watched_changes_nothing_that_is_learnt() -> None:
    net, batch = linear()
    other = net.copy()
    assert cn.train(net, parts(batch, 7), epochs=3, metrics="far") == cn.train(other, parts(batch, 7), epochs=3)
    for name, value in values(net).items():
        np.testing.assert_array_equal(value, values(other)[name])


def test_minibatches_that_are_not_finite_may_be_skipped() -> None:
    net, batch = linear()
    other = net.copy()
    first, second = parts(batch, 20)
    bad = {**first, "x": np.full((3, 20), np.nan)}
    cn.train(net, [first, bad, second], momentum=0.5, max_skipped=1)
    cn.train(other, [first, second], momentum=0.5)
    for name, value in values(net).items():
        np.testing.assert_array_equal(value, values(other)[name])
    with pytest.raises(TrainingError, match=r"input 'x' holds nan in column 0, row 0.*more than max-skipped = 1"):
        cn.train(net, [bad, bad], max_skipped=1)


def test_statistics_are_as_before_a_minibatch_that_is_skipped() -> None:
    x, y = cn.input("x", 3), cn.input("y", 2)
    net = cn.Network(cn.square_error(cn.parameter("W", (2, 3)) @ cn.batch_norm(x, name="n"), y))
    good = {"x": RANDOM.normal(size=(3, 9)), "y": RANDOM.normal(size=(2, 9))}
    cn.train(net, [good])
    statistics = net.find("n").operation.component.stats_sum.clone()
    with pytest.raises(TrainingError):
        cn.train(net, [{**good, "y": np.full((2, 9), np.inf)}])
    assert torch.equal(net.find("n").operation.component.stats_sum, statistics)


def test_options_that_cannot_be() -> None:
    net, batch = linear()
    for options, says in (
        ({"momentum": 1.0}, "momentum must be"),
        ({"l2": -1.0}, "l2 must be"),
        ({"speed": 1.0}, "there is no option 'speed'; the options are"),
        ({"parameters": {"V": {"l2": 1.0}}}, "no parameter has a name such as 'V'; there is: W, b"),
        ({"parameters": {"W": {"l3": 1.0}}}, "there is no option 'l3'"),
        ({"metrics": ["o"]}, "metric 'o': expected a node of 1 x 1 that is computed"),
        ({"metrics": {"criterion": "far"}}, "is that of the criterion: give it another one"),
        ({"momentum": 0.5, "backstitch_training_scale": 0.3}, "backstitch needs momentum = 0"),
        ({"learning_rate": (0.1, 0.2, 0.3)}, "two numbers, the first and the last one"),
        ({"learning_rate": lambda done: -1.0}, "a learning rate must be a finite number >= 0"),
        ({"validation": {"x": 1}}, "expected a list of held-out minibatches"),
    ):
        with pytest.raises(TrainingError, match=says):
            cn.train(net, [batch], **options)
    optimizer = torch.optim.SGD(net.tensors().values(), lr=0.1)
    with pytest.raises(TrainingError, match="momentum, max_change belong to steps without an optimizer: SGD"):
        cn.train(net, [batch], optimizer, momentum=0.5, max_change=1.0)


def table(sparse: bool) -> tuple[cn.Network, list[dict[str, Any]]]:
    words, E = cn.input("words", classes=9), cn.parameter("E", (4, 9))
    h = cn.tanh(cn.parameter("W", (4, 4)) @ cn.embedding(E, words, sparse=sparse))
    net = cn.Network(cn.squared_norm(h - 0.5), dtype=torch.float64)
    return net, [{"words": RANDOM.integers(0, 9, size=7)} for _ in range(3)]


def test_sparse_gradients_learn_as_dense_ones() -> None:
    limits: dict[str, Any] = {"clip_norm": 0.5, "max_param_change": 0.4, "max_change": 0.3}
    (net, batches), (dense, _) = table(True), table(False)
    dense.set_parameters(net.parameters())
    for each in (net, dense):
        cn.train(each, batches, learning_rate=3.0, epochs=2, **limits)
    for name, value in net.parameters().items():
        np.testing.assert_allclose(value, dense.parameters()[name], rtol=1e-10)
    assert net.tensors()["E"].grad.is_sparse


@pytest.mark.parametrize("momentum", [0.0, 0.5])
@pytest.mark.parametrize("options", [{"l2": 0.1}, {"l1": 0.1}, {"l2": 0.1, "max_param_change": 0.2}])
def test_penalties_reach_columns_that_no_word_has_chosen(options: dict[str, Any], momentum: float) -> None:
    (net, batches), (dense, _) = table(True), table(False)
    dense.set_parameters(net.parameters())
    for each in (net, dense):
        cn.train(each, batches, learning_rate=0.1, epochs=2, momentum=momentum, **options)
    for name, value in net.parameters().items():
        np.testing.assert_allclose(value, dense.parameters()[name], rtol=1e-10)
    assert net.tensors()["E"].grad.is_sparse


def test_penalties_of_sparse_gradients_for_an_optimizer() -> None:
    (net, batches), (dense, _) = table(True), table(False)
    dense.set_parameters(net.parameters())
    for each in (net, dense):
        cn.train(each, batches, torch.optim.SGD(each.tensors().values(), lr=0.1), epochs=2, l2=0.1)
    np.testing.assert_allclose(net.parameters()["E"], dense.parameters()["E"], rtol=1e-10)
    with pytest.raises(TrainingError, match=r"SparseAdam does not support dense .*; l1 and l2 make them dense"):
        cn.train(net, batches, torch.optim.SparseAdam([net.tensors()["E"]]), l2=0.1)
