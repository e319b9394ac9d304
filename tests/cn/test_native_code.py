"""Computational networks by native code: as PyTorch computes them, forward and backward, whatever is done to them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from torch import Tensor

from nnet3 import cn
from nnet3.base.native import operations
from nnet3.base.native.fastest import Fastest
from nnet3.cn import network_state
from nnet3.engine.runtime import native_runs
from nnet3.errors import NetworkError
from tests.cn.random_graphs import networks
from tests.effort import at_night, draws, nightly
from tests.native.native_code import needs_native_code

pytestmark = [
    needs_native_code,
    pytest.mark.filterwarnings("ignore:.*whose columns are samples that have nothing to do with each other"),
]
Net = tuple[cn.Network, Callable[[int, int], dict[str, cn.Sequences]]]


def lstm(cells: int) -> cn.Node:
    return cn.macros.lstm(cn.input("x", 3), cells).h


def relus(cells: int) -> cn.Node:
    """A recurrence whose sums have terms of all kinds."""
    x, before = cn.input("x", 3), cn.delay(None, 1, dim=cells)
    W, R = cn.parameter("W", (cells, 3)), cn.parameter("R", (cells, cells), 0.3 * np.eye(cells)[::-1])
    d, b = cn.parameter("d", (cells, 1)), cn.parameter("b", (cells, 1))
    h = cn.relu(W @ x + b - R @ before - cn.diag_times(d, before) + cn.tanh(R @ before))
    before.connect(h)
    return h


def gated(cells: int) -> cn.Node:
    x, before = cn.input("x", 3), cn.delay(None, -1, dim=cells)
    z = cn.sigmoid(cn.macros.affine(cn.row_stack(x, before), cells, name="z"))
    h = cn.tanh(cn.parameter("W", (cells, 3)) @ x + cn.parameter("R", (cells, cells)) @ (z * before))
    after = cn.plus(before, z * (h - before))
    before.connect(after)
    return after


def network(make: Callable[[int], cn.Node], cells: int = 6) -> Net:
    scores = cn.macros.affine(make(cells), 4, name="scores")
    net = cn.Network(cn.cross_entropy_with_softmax(cn.input("labels", classes=4), scores), {"scores": scores})

    def batch(sequences: int, frames: int) -> dict[str, cn.Sequences]:
        rng = np.random.default_rng(frames)
        x = rng.normal(size=(sequences, 3, frames)).astype(np.float32)
        return {"x": cn.sequences(x), "labels": cn.sequences(rng.integers(0, 4, (sequences, frames)))}

    return net, batch


@contextmanager
def without_native_code() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as context:
        context.setattr(native_runs, "library", lambda: None)
        yield


@contextmanager
def counted() -> Iterator[list[int]]:
    """How many iterations each run of native code has."""
    iterations: list[int] = []
    run = native_runs.NativeRun.__call__

    def note(self: native_runs.NativeRun, start: int, stop: int) -> None:
        iterations.append(stop - start)
        run(self, start, stop)

    with pytest.MonkeyPatch.context() as context:
        context.setattr(native_runs.NativeRun, "__call__", note)
        yield iterations


def assert_same(found: tuple[float, dict[str, np.ndarray]], expected: tuple[float, dict[str, np.ndarray]]) -> None:
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-5)
    assert found[1].keys() == expected[1].keys()
    for name, gradient in expected[1].items():
        size = np.abs(gradient).max() + 1e-3
        np.testing.assert_allclose(found[1][name] / size, gradient / size, atol=2e-5, err_msg=name)


@pytest.fixture
def _panels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Panels are used on every processor, and for every size."""
    monkeypatch.setattr(native_runs, "fastest", lambda: Fastest("panels", True))
    monkeypatch.setattr(operations, "_SMALL", 0)


@pytest.mark.usefixtures("_panels")
@pytest.mark.parametrize("make", [lstm, relus, gated])
def test_all_numbers_of_sequences(make: Callable[[int], cn.Node]) -> None:
    for cells in (45, *at_night(6)):
        (net, batch), (twin, _) = network(make, cells), network(make, cells)
        for sequences in (1, 9, *at_night(2, 5, 8, 12, 13, 20)):
            given = batch(sequences, 50)
            with without_native_code():
                expected = twin.criterion_and_gradients(given)
            for _ in range(3):
                with counted() as iterations:
                    assert_same(net.criterion_and_gradients(given), expected)
                assert sum(each >= 20 for each in iterations) >= 2, "a loop forward, a loop backward"


def both_ways(cells: int) -> cn.Node:
    after = cn.delay(None, -1, dim=cells)
    x, before = cn.input("x", 3), cn.delay(None, 1, dim=cells)
    W, R, b = cn.parameter("W", (cells, 3)), cn.parameter("R", (cells, cells)), cn.parameter("b", (cells, 1))
    h = cn.tanh(W @ x + R @ before + b)
    before.connect(h)
    g = cn.sigmoid(cn.parameter("V", (cells, cells)) @ h + cn.parameter("S", (cells, cells)) @ after)
    after.connect(g)
    return cn.plus(h, g)


@pytest.mark.usefixtures("_panels")
@pytest.mark.parametrize("make", [lstm, both_ways, *at_night(relus, gated)])
def test_sequences_of_several_lengths(make: Callable[[int], cn.Node]) -> None:
    """Ever new sets of lengths, and known ones again."""
    (net, _), (twin, _) = network(make, 20), network(make, 20)
    rng = np.random.default_rng(3)
    for number in range(draws(7)):
        lengths = rng.integers(1, (60, 15, 4)[number % 3], size=rng.integers(2, 14))
        x = [rng.normal(size=(3, length)).astype(np.float32) for length in lengths]
        labels = [rng.integers(0, 4, length) for length in lengths]
        given = {"x": cn.sequences(x), "labels": cn.sequences(labels)}
        with without_native_code():
            expected = twin.criterion_and_gradients(given)
        for _ in range(3):
            with counted() as iterations:
                assert_same(net.criterion_and_gradients(given), expected)
            if np.sort(lengths)[-2] > 40:
                assert sum(each >= 20 for each in iterations) >= 2, "a loop forward, a loop backward"


def random_recurrence(seed: int) -> Callable[[int], cn.Node]:
    """Returns what makes a network of some delays, whose nodes are drawn from what is known at the frame."""

    def make(cells: int) -> cn.Node:
        rng, weights = random.Random(seed), np.random.default_rng(seed)

        def W(columns: int = cells) -> cn.Node:
            return cn.parameter(f"W{next(numbers)}", (cells, columns), weights.normal(size=(cells, columns)) / cells)

        numbers = count()
        way = rng.choice([1, -1])
        delays = [cn.delay(None, way * rng.choice([1, 1, 2]), dim=cells) for _ in range(rng.randint(1, 2))]
        drive = cn.plus(W(3) @ cn.input("x", 3), W(1))
        known = [*delays, drive]
        for _ in range(rng.randint(3, 7)):
            one, other = rng.choice(known), rng.choice(known)
            kinds: list[Callable[[], cn.Node]] = [
                *(partial(kind, one) for kind in (cn.sigmoid, cn.tanh, cn.relu)),
                *(partial(kind, one, other) for kind in (cn.plus, cn.minus)),
                lambda one=one, other=other: cn.plus(W() @ one, W() @ other),
                lambda one=one, other=other: cn.plus(W() @ one, cn.diag_times(W(1), other)),
                lambda one=one, other=other: cn.element_times(one, cn.sigmoid(other)),
            ]
            known.append(rng.choice(kinds)())
        ends = [
            delay.connect(cn.tanh(cn.plus(cn.plus(rng.choice(known[len(delays) :]), drive), W() @ delay)))
            for delay in delays
        ]
        return cn.plus(cn.plus(ends[0], ends[-1]), known[-1])

    return make


@nightly
@pytest.mark.usefixtures("_panels")
@pytest.mark.parametrize("seed", range(draws(4)))
def test_random_recurrences(seed: int) -> None:
    rng = np.random.default_rng(seed)
    (net, _), (twin, _) = network(random_recurrence(seed), 5), network(random_recurrence(seed), 5)
    for number in range(3):
        lengths = rng.integers(1, (12, 4, 30)[number], size=rng.integers(1, 8))
        x = [rng.normal(size=(3, length)).astype(np.float32) for length in lengths]
        given = {"x": cn.sequences(x), "labels": cn.sequences([rng.integers(0, 4, length) for length in lengths])}
        with without_native_code():
            expected = twin.criterion_and_gradients(given)
        for _ in range(2):
            assert_same(net.criterion_and_gradients(given), expected)


@pytest.mark.usefixtures("_panels")
def test_threads_share_panels(monkeypatch: pytest.MonkeyPatch) -> None:
    (net, batch), (twin, _) = network(lstm, 300), network(lstm, 300)
    with without_native_code():
        expected = twin.criterion_and_gradients(batch(24, 20))
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    assert_same(net.criterion_and_gradients(batch(24, 20)), expected)


@pytest.mark.usefixtures("_panels")
def test_weights_are_packed_once_for_what_runs_before_in_and_after_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight matrices: of many sequences inputs, which are short, are multiplied in the loop."""
    monkeypatch.setattr(network_state, "fastest", lambda: Fastest("panels", True))
    (net, batch), (twin, _) = network(lstm, 45), network(lstm, 45)
    packed, pack = list[int](), native_runs.NativeRun._pack

    def note(self: native_runs.NativeRun, number: int, address: int) -> None:
        packed.append(number)
        pack(self, number, address)

    monkeypatch.setattr(native_runs.NativeRun, "_pack", note)
    given = batch(9, 50)
    for scale in (1.0, 0.5, 2.0):
        for each in (net, twin):
            each.set_parameters({name: scale * value for name, value in each.parameters().items()})
        with without_native_code():
            expected = twin.evaluate("scores", given)
        packed.clear()
        for ours, theirs in zip(net.evaluate("scores", given), expected, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
        assert len(packed) == 8
    packed.clear()
    net.profile(given, ["scores"], repeats=2)
    assert len(packed) % 8 == 0 < len(packed)
    assert [":early" in str(net.program(batch(count, 50), ["scores"])) for count in (9, 3)] == [False, True]


def test_a_whole_small_step_is_a_few_calls() -> None:
    net, _ = network(lambda cells: cn.sigmoid(cn.macros.affine(cn.input("x", 3), cells, name="h")))
    rng = np.random.default_rng(0)
    given = {"x": rng.normal(size=(3, 8)).astype(np.float32), "labels": rng.integers(0, 4, 8)}
    for _ in range(2):
        with counted() as iterations:
            net.backward(given)
        assert iterations == [1, 1]


def test_other_types_do_not_ask_for_native_code(monkeypatch: pytest.MonkeyPatch) -> None:
    net, batch = network(lstm)
    net.to(torch.float64)
    asked = list[str]()
    monkeypatch.setattr(native_runs, "library", lambda: asked.append("library"))
    net.backward(batch(2, 30))
    assert asked == []


def test_what_is_large_stays_with_pytorch() -> None:
    net, _ = network(lambda cells: cn.sigmoid(cn.macros.affine(cn.input("x", 3), cells, name="h")), 2**12)
    rng = np.random.default_rng(0)
    with counted() as iterations:
        net.backward({"x": rng.normal(size=(3, 40)).astype(np.float32), "labels": rng.integers(0, 4, 40)})
    assert not iterations


@pytest.mark.parametrize("make", [lstm, *at_night(gated)])
def test_whatever_is_done_to_a_network(make: Callable[[int], cn.Node], monkeypatch: pytest.MonkeyPatch) -> None:
    (net, batch), (twin, _) = network(make, 20), network(make, 20)
    monkeypatch.setattr(native_runs, "fastest", lambda: Fastest("panels", True))
    monkeypatch.setattr(operations, "_SMALL", 0)
    names = list(net.parameters())

    def check(sequences: int = 11, frames: int = 20) -> None:
        given = batch(sequences, frames)
        with without_native_code():
            expected, scores = twin.criterion_and_gradients(given), twin.evaluate("scores", given)
        for _ in range(2):
            assert_same(net.criterion_and_gradients(given), expected)
            for ours, theirs in zip(net.evaluate("scores", given), scores, strict=True):
                np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-4)

    def on_both(change: Callable[[cn.Network], object]) -> None:
        change(net)
        change(twin)
        check()

    check()
    for frames in (21, 30, *at_night(12, 3, 57), 30):  # new lengths and known ones
        check(frames=frames)
        check(3, frames)
    on_both(lambda each: each.set_parameters({name: 0.5 * value for name, value in each.parameters().items()}))
    on_both(lambda each: each.tensors()[names[0]].data.mul_(2.0))
    on_both(lambda each: _move(each.tensors()[names[0]]))
    on_both(lambda each: each.freeze(names[0]))
    on_both(lambda each: each.to(torch.float64))
    on_both(lambda each: each.to(torch.float32))
    on_both(lambda each: each.unfreeze(names[0]))
    with torch.no_grad(), torch.inference_mode():
        check()
    with without_native_code():
        check()
    check()


def _move(tensor: Tensor) -> None:
    tensor.data = tensor.data.clone()


@settings(max_examples=draws(12))
@given(networks())
def test_random_networks(made) -> None:
    criterion, last, inputs = made
    try:
        net, twin = (cn.Network(criterion, {"last": last}, dtype=torch.float32) for _ in range(2))
    except NetworkError:
        assume(False)
    given = {node.name: inputs[node.name] for node in net.inputs}
    with without_native_code():
        value, expected = twin.criterion_and_gradients(given)
    assume(np.isfinite(value) and all(np.isfinite(each).all() for each in expected.values()))
    for _ in range(2):
        found, gradients = net.criterion_and_gradients(given)
        np.testing.assert_allclose(found, value, rtol=1e-4, atol=1e-4)
        for name, gradient in expected.items():
            size = np.abs(gradient).max() + 1.0
            np.testing.assert_allclose(gradients[name] / size, gradient / size, atol=1e-4, err_msg=name)
