"""Gradient descent, torch optimizers, statistics before training, gradient checks."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from nnet3 import cn
from nnet3.errors import ArgumentError, NetworkError, TrainingError
from tests.cn.small_networks import lstm
from tests.seeds import RANDOM


def linear() -> tuple[cn.Network, dict[str, np.ndarray]]:
    x, y = cn.input("x", 3), cn.input("y", 2)
    J = cn.square_error(cn.parameter("W", (2, 3)) @ x + cn.parameter("b", (2, 1)), y, name="J")
    X = RANDOM.normal(size=(3, 40))
    return cn.Network(J, dtype=torch.float64), {"x": X, "y": RANDOM.normal(size=(2, 3)) @ X + 0.5}


def test_a_step_is_1_1_and_1_2() -> None:
    net, batch = linear()
    before, gradients = net.parameters(), net.gradients(batch)
    value = cn.sgd_step(net, batch, 0.3)
    assert value == pytest.approx(float(0.5 * ((before["W"] @ batch["x"] + before["b"] - batch["y"]) ** 2).sum() / 40))
    for name, array in net.parameters().items():
        np.testing.assert_allclose(array, before[name] - 0.3 * gradients[name] / 40, rtol=1e-12)


def regularized(form: str) -> tuple[cn.Network, dict[str, np.ndarray]]:
    """The square error plus a quarter of the squared norm of W, written in several ways."""
    x, y = cn.input("x", 3), cn.input("y", 2)
    W = cn.parameter("W", (2, 3))
    J, R = cn.square_error(W @ x, y, name="J"), cn.squared_norm(W, name="R")
    criterion = {
        "two criteria": {J: 1.0, R: 0.25},
        "a sum": J + 0.25 * R,
        "a difference": 1.0 * J - cn.negate(cn.constant(0.25) * R),
        "half of it twice": {J + 0.25 * R: 0.5, cn.copy(0.5 * J + 0.125 * R): 1.0},
        "a trained factor": {J: 1.0, cn.scale(cn.parameter("l", (1, 1), 0.25), R): 1.0},
    }[form]
    batch = {"x": RANDOM.normal(size=(3, 6)), "y": RANDOM.normal(size=(2, 6))}
    return cn.Network(criterion, {"J": J}, dtype=torch.float64), batch


FORMS = ["two criteria", "a sum", "a difference", "half of it twice", "a trained factor"]


@pytest.mark.parametrize("form", FORMS)
def test_regularization_is_not_divided_by_the_number_of_samples(form) -> None:
    for copies in (1, 5):  # the same mean of the criterion, whatever the minibatch's size
        net, batch = regularized(form)
        W = net.parameters()["W"]
        batch = {name: np.tile(array, (1, copies)) for name, array in batch.items()}
        error = W @ batch["x"] - batch["y"]
        mean = (error**2).sum() / 2 / (6 * copies) + 0.25 * (W**2).sum()
        slope = error @ batch["x"].T / (6 * copies) + 0.5 * W
        assert net.backward(batch, per_sample=True) == pytest.approx(mean)
        np.testing.assert_allclose(net.find("W").memory.grad.numpy().T, slope, rtol=1e-10)
        assert cn.sgd_step(net, batch, 0.1) == pytest.approx(mean)
        np.testing.assert_allclose(net.parameters()["W"], W - 0.1 * slope, rtol=1e-10)


@pytest.mark.parametrize("form", FORMS)
def test_the_criterion_and_its_gradients_are_sums_over_samples(form) -> None:
    net, batch = regularized(form)
    W = net.parameters()["W"]
    error = W @ batch["x"] - batch["y"]
    assert net.criterion(batch) == pytest.approx((error**2).sum() / 2 + 0.25 * (W**2).sum())
    assert net.backward(batch) == pytest.approx(net.criterion(batch))
    np.testing.assert_allclose(net.gradients(batch)["W"], error @ batch["x"].T + 0.5 * W, rtol=1e-10)


def test_the_criterion_of_an_epoch_weighs_minibatches_by_their_samples() -> None:
    net, batch = regularized("a sum")
    parts = [{n: a[:, :1] for n, a in batch.items()}, {n: a[:, 1:] for n, a in batch.items()}]
    W = net.parameters()["W"]
    expected = ((W @ batch["x"] - batch["y"]) ** 2).sum() / 2 / 6 + 0.25 * (W**2).sum()
    assert cn.train(net, parts, learning_rate=0.0) == [pytest.approx(expected)]


def test_regularization_alone_and_over_sequences() -> None:
    W = cn.parameter("W", (2, 3))
    net = cn.Network(cn.squared_norm(W), dtype=torch.float64)
    value = W.value
    assert cn.sgd_step(net, {}, 0.25) == pytest.approx((value**2).sum())
    np.testing.assert_allclose(W.value, value / 2)
    x = cn.input("x", 3)
    net = cn.Network(cn.sum_elements(W @ x) + cn.l1_norm(W), dtype=torch.float64)
    X = [RANDOM.normal(size=(3, frames)) for frames in (2, 4)]
    expected = (W.value @ np.concatenate(X, 1)).sum() / 6 + np.abs(W.value).sum()
    assert net.backward({"x": cn.sequences(X)}, per_sample=True) == pytest.approx(expected)


def test_training_by_gradient_descent() -> None:
    net, batch = linear()
    minibatches = [{name: array[:, i : i + 10] for name, array in batch.items()} for i in range(0, 40, 10)]
    seen = []
    history = cn.train(net, minibatches, learning_rate=0.3, epochs=30, report=lambda epoch, value: seen.append(epoch))
    assert seen == list(range(1, 31))
    assert history[-1] < 1e-4 * history[0]


def test_an_epoch_is_the_mean_over_samples_not_over_minibatches() -> None:
    for make in (None, torch.optim.SGD):
        net, batch = linear()
        minibatches = [{n: array[:, begin:end] for n, array in batch.items()} for begin, end in ((0, 4), (4, 40))]
        optimizer = None if make is None else make(list(net.tensors().values()), lr=0.0)
        history = cn.train(net, minibatches, optimizer, learning_rate=0.0, epochs=2)
        assert history == pytest.approx([net.criterion(batch) / 40] * 2)


@pytest.mark.parametrize("make", [torch.optim.Adam, torch.optim.SGD, torch.optim.AdamW])
def test_optimizers_of_torch_train_networks(make) -> None:
    net, batch = linear()
    optimizer = make(list(net.tensors().values()), lr=0.05)
    history = cn.train(net, [batch], optimizer, epochs=100)
    assert history[-1] < 0.1 * history[0]


@pytest.mark.parametrize("line_search", [None, "strong_wolfe"])
def test_an_optimizer_that_asks_several_times(line_search) -> None:
    net, batch = linear()
    before = net.criterion(batch) / 40
    optimizer = torch.optim.LBFGS(list(net.tensors().values()), line_search_fn=line_search)
    history = cn.train(net, [batch], optimizer, epochs=5)
    assert history[0] == pytest.approx(before)
    assert history[-1] < 1e-6 * before
    other, _ = linear()
    optimizer = torch.optim.LBFGS(list(other.tensors().values()), line_search_fn="strong_wolfe")
    optimizer.step(lambda: other.backward(batch))
    assert other.criterion(batch) < 0.01 * before


def test_a_torch_optimizer_by_hand() -> None:
    net, batch = linear()
    optimizer = torch.optim.SGD(list(net.tensors().values()), lr=0.001)
    before, gradients = net.parameters(), net.gradients(batch)
    net.backward(batch)
    optimizer.step()
    np.testing.assert_allclose(net.parameters()["W"], before["W"] - 0.001 * gradients["W"], rtol=1e-12)


@pytest.mark.parametrize("sized", [False, True])
def test_a_rate_falls_within_the_first_epoch(sized) -> None:
    """Also if a function gives the minibatches, whose number nobody knows."""
    seen = []

    def rate(done: float) -> float:
        seen.append(done)
        return 0.01

    net, batch = linear()
    data = [{name: array[:, n::4] for name, array in batch.items()} for n in range(4)]
    cn.train(net, data if sized else lambda: iter(data), learning_rate=rate, epochs=2)
    assert seen == [number / 8 for number in range(8)]
    cn.train(net, (each for each in data), learning_rate=rate)  # it can be gone through only once
    assert seen[8:] == [0.0] * 4


def test_frozen_parameters_stay() -> None:
    net, batch = linear()
    net.freeze("W")
    before = net.parameters()["W"]
    cn.train(net, [batch], epochs=3)
    np.testing.assert_array_equal(net.parameters()["W"], before)
    assert set(net.tensors()) == {"b"}


def test_optimizers_pass_over_what_is_frozen_later() -> None:
    net, batch = linear()
    optimizer = torch.optim.SGD(list(net.tensors().values()), lr=0.01)
    cn.train(net, [batch], optimizer)
    net.freeze("W")
    before = net.parameters()
    for _ in range(2):
        optimizer.zero_grad()  # takes the gradients off
        net.backward(batch)
        optimizer.step()
    cn.train(net, [batch], optimizer)
    np.testing.assert_array_equal(net.parameters()["W"], before["W"])
    assert not np.array_equal(net.parameters()["b"], before["b"])


def test_training_of_nothing() -> None:
    net, batch = linear()
    net.freeze("*")
    with pytest.raises(TrainingError, match=r"nothing learns: .* depends, all are frozen \(W, b\)"):
        cn.train(net, [batch])
    x = cn.input("x", 2)
    net = cn.Network(cn.squared_norm(x + 1), {"y": cn.parameter("W", (2, 2)) @ x})
    with pytest.raises(TrainingError, match=r"nothing learns: .* depends, there is none"):
        cn.sgd_step(net, {"x": np.ones((2, 3))}, 0.1)


def test_training_that_cannot_be() -> None:
    net, batch = linear()
    with pytest.raises(TrainingError, match="no minibatches"):
        cn.train(net, iter([]))
    with pytest.raises(TrainingError, match="tensors that are not this network's"):
        cn.train(net, [batch], torch.optim.SGD([torch.zeros(3)], lr=1.0))

    with pytest.raises(ArgumentError, match=r"an optimizer must be one of torch\.optim, got 'Adam'"):
        cn.train(net, [batch], "Adam")
    with pytest.raises(TrainingError, match="epochs must be at least 0, got -1"):
        cn.train(net, [batch], epochs=-1)
    assert cn.train(net, [batch], epochs=0) == []
    with pytest.raises(TrainingError, match="resume goes on with the run in a folder"):
        cn.train(net, [batch], resume=True)
    with pytest.raises(TrainingError, match="report must be a function of an epoch's number and its criterion, got 3"):
        cn.train(net, [batch], report=3)
    with pytest.raises(ArgumentError, match="metrics must be a list of nodes or names, got 3"):
        cn.train(net, [batch], metrics=3)
    for wrong in (3, lambda: 3, {"x": 1}, lambda: batch):
        with pytest.raises(TrainingError, match="expected a list of minibatches"):
            cn.train(net, wrong)
        with pytest.raises(TrainingError, match="expected a list of held-out minibatches"):
            cn.train(net, [batch], validation=wrong)
    for empty in ([], iter([])):
        with pytest.raises(TrainingError, match="no held-out minibatches"):
            cn.train(net, [batch], validation=empty)

    class Idle(torch.optim.SGD):
        def step(self, closure=None) -> None:
            pass

    with pytest.raises(TrainingError, match=r"Idle\.step\(closure\) has not called its closure"):
        cn.train(net, [batch], Idle(list(net.tensors().values())))


def test_optimizers_that_take_no_sparse_gradients() -> None:
    words = cn.input("words", classes=4)
    for sparse in (True, False):
        net = cn.Network(cn.sum_elements(cn.embedding(cn.parameter("E", (2, 4)), words, sparse=sparse)))
        optimizer = torch.optim.Adam(net.tensors().values())
        if sparse:
            with pytest.raises(TrainingError, match=r"say cn\.embedding\(\.\.\., sparse=False\)"):
                cn.train(net, [{"words": [0, 2]}], optimizer)
        else:
            assert len(cn.train(net, [{"words": [0, 2]}], optimizer)) == 1


def test_statistics_are_computed_once_before_training() -> None:
    x = cn.input("x", 3)
    log = cn.log(x, name="log")
    normalized = cn.per_dim_mean_var_norm(log, cn.mean(log, name="m"), cn.inv_std_dev(log, name="s"), name="n")
    again = cn.mean(normalized * normalized, name="m2")
    J = cn.square_error(cn.parameter("W", (3, 3)) @ (normalized - again), cn.input("y", 3))
    net = cn.Network(J, dtype=torch.float64)
    data = [{"x": np.exp(RANDOM.normal(2, 3, size=(3, size)))} for size in (5, 7, 30)]
    with pytest.raises(NetworkError, match="'m' is not known yet: call compute_statistics"):
        net.evaluate("n", data[0])
    net.compute_statistics(data)
    every = np.log(np.concatenate([batch["x"] for batch in data], 1))
    np.testing.assert_allclose(net.find("m").value, every.mean(1, keepdims=True))
    np.testing.assert_allclose(net.find("s").value, 1 / every.std(1, keepdims=True))
    np.testing.assert_allclose(net.find("m2").value, 1, rtol=1e-9)
    expected = (np.log(data[0]["x"]) - every.mean(1, keepdims=True)) / every.std(1, keepdims=True)
    np.testing.assert_allclose(net.evaluate("n", data[0]), expected)
    net.compute_statistics([])  # all are marked: nothing is computed again
    np.testing.assert_allclose(net.find("m").value, every.mean(1, keepdims=True))


def test_the_gradient_check(capsys) -> None:
    net = lstm(carry=False)
    batch = {n: cn.sequences([RANDOM.normal(size=(r, 5))]) for n, r in (("x", 3), ("y", 2))}
    check = cn.check_gradients(net, batch, max_elements=5)
    assert check.worst < 1e-4
    assert {row.parameter for row in check} == set(net.parameters())
    errors = [row.relative_error for row in check]
    assert errors == sorted(errors, reverse=True)
    printed = capsys.readouterr().out
    assert printed.startswith("parameter")
    assert "lstm.dci" in printed


def test_the_gradient_check_finds_a_wrong_gradient(monkeypatch, capsys) -> None:
    net, batch = linear()

    def wrong(self, child, inputs, output, gradient, memo, dx, accumulate) -> None:
        dx.copy_(gradient if len(dx) == len(gradient) else gradient.sum(0, keepdim=True) * 1.01)

    monkeypatch.setattr("nnet3.cn.nodes.sums.Plus.compute_partial_gradient", wrong)
    net.optimize = False  # so that the sum is a kernel of its own
    check = cn.check_gradients(net, batch)
    assert check[0].parameter == "b"
    assert check.worst == pytest.approx(0.01, rel=0.1)


def test_the_gradient_check_keeps_one_mask_of_dropout(capsys) -> None:
    x, y = cn.input("x", 3), cn.input("y", 2)
    h = cn.dropout(0.5, cn.tanh(cn.parameter("W", (6, 3)) @ x))
    net = cn.Network(cn.square_error(cn.parameter("V", (2, 6)) @ h, y))
    assert cn.check_gradients(net, {"x": RANDOM.normal(size=(3, 9)), "y": np.zeros((2, 9))}).worst < 1e-5


def test_a_run_of_float64_goes_on_with_the_same_bits_and_in_no_other_type(tmp_path) -> None:
    def made(dtype: torch.dtype = torch.float64) -> cn.Network:
        x, y = cn.input("x", 4), cn.input("y", classes=3)
        h = cn.macros.dnn_layer(x, 6, name="l")
        return cn.Network(cn.cross_entropy_with_softmax(y, cn.macros.affine(h, 3, name="o")), dtype=dtype)

    data = [{"x": RANDOM.normal(size=(4, 8)), "y": RANDOM.integers(0, 3, size=8)} for _ in range(4)]
    whole, net = made(), made()
    cn.train(whole, data, learning_rate=0.1, epochs=4, natural_gradient=True)
    for epochs in (2, 4):
        net = made()
        options = {"learning_rate": 0.1, "natural_gradient": True, "resume": epochs == 4}
        cn.train(net, data, epochs=epochs, folder=tmp_path, **options)
    for name, array in whole.parameters().items():
        np.testing.assert_array_equal(net.parameters()[name], array, err_msg=name, strict=True)
    with pytest.raises(TrainingError, match=r"parameters 'l.affine.W': 4 x 6 of float64 there, 4 x 6 of float32 here"):
        cn.train(made(torch.float32), data, epochs=6, folder=tmp_path, **options)


def test_a_step_is_the_formula_of_the_page() -> None:
    """Clipping, then momentum, l1 and l2, then limits of changes, of each parameter and of all."""
    x, y = cn.input("x", 3), cn.input("y", 2)
    net = cn.Network(
        cn.square_error(cn.parameter("V", (2, 4)) @ cn.tanh(cn.parameter("W", (4, 3)) @ x), y), dtype=torch.float64
    )
    batch = {"x": RANDOM.normal(size=(3, 5)), "y": 4 * RANDOM.normal(size=(2, 5))}
    rate, momentum, clip, l1, l2, most_of_v, most = 0.3, 0.6, 0.7, 0.01, 0.05, 0.02, 0.03
    w, delta = net.parameters(), dict.fromkeys("VW", 0.0)
    shortened = 0
    for _ in range(3):
        twin = net.copy()
        twin.set_parameters(w)
        twin.backward(batch, per_sample=True)
        g = {name: tensor.grad.numpy().T for name, tensor in twin.tensors().items()}
        length = np.sqrt(sum((each**2).sum() for each in g.values()))
        assert length > clip
        slopes = {name: g[name] * clip / length for name in w}
        delta = {name: momentum * delta[name] - rate * slopes[name] for name in w}
        delta = {name: delta[name] - rate * (2 * l2 * w[name] + l1 * np.sign(w[name])) for name in w}
        d = {name: (1 - momentum) * delta[name] for name in w}
        d["V"] = d["V"] * min(1, most_of_v / np.linalg.norm(d["V"]))
        length = np.sqrt(sum((each**2).sum() for each in d.values()))
        shortened += length > most
        w = {name: w[name] + d[name] * min(1, most / length) for name in w}
    limits = {"clip_norm": clip, "max_param_change": most, "parameters": {"V": {"max_change": most_of_v}}}
    cn.train(net, [batch], epochs=3, learning_rate=rate, momentum=momentum, l1=l1, l2=l2, **limits)
    assert shortened
    for name, expected in w.items():
        np.testing.assert_allclose(net.parameters()[name], expected, rtol=1e-10)


def test_samples_without_a_label_count_in_the_mean() -> None:
    x, labels = cn.input("x", 2), cn.input("labels", classes=3)
    net = cn.Network(cn.cross_entropy_with_softmax(labels, cn.parameter("W", (3, 2)) @ x), dtype=torch.float64)
    given = {"x": RANDOM.normal(size=(2, 4)), "labels": [0, 2, -1, -1]}
    some = {"x": given["x"][:, :2], "labels": [0, 2]}
    assert net.criterion(given) == pytest.approx(net.criterion(some), rel=1e-12)
    assert net.backward(given, per_sample=True) == pytest.approx(net.criterion(some) / 4, rel=1e-12)
