"""Frame by frame, with sequences chosen anew in between, values are those of the whole sequence."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from nnet3 import cn
from nnet3.base.options.compiling import CompileOptions
from nnet3.cn.node import Node
from nnet3.cn.stepper import Stepper
from nnet3.engine.driver import ComputationCache
from nnet3.errors import ArgumentError, NetworkError, Nnet3Error, ShapeError
from tests.cn.random_loops import random_loop
from tests.cn.small_networks import network, recurrence
from tests.effort import draws

QUICK = CompileOptions(level=1)
Batch = Mapping[str, np.ndarray]  # by input, (rows, sequences, frames)


def drawn(net: cn.Network, sequences: int, frames: int, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    inputs = (node for node in net.inputs if node not in net.initial_states and node.shape.has_samples)
    return {net.names[node]: rng.normal(size=(node.shape.rows, sequences, frames)) for node in inputs}


def frame(batch: Batch, t: int) -> dict[str, np.ndarray]:
    return {name: value[:, :, t] for name, value in batch.items()}


def whole(net: cn.Network, node: str, batch: Batch, **more: object) -> np.ndarray:
    """The values of whole sequences, (rows, sequences, frames)."""
    given = {name: cn.sequences(list(value.transpose(1, 0, 2))) for name, value in batch.items()}
    return np.stack(net.evaluate(node, {**given, **more}), 1)


def stepped(stepper: Stepper, batch: Batch) -> np.ndarray:
    frames = next(iter(batch.values())).shape[2]
    return np.stack([stepper.step(frame(batch, t)) for t in range(frames)], 2)


def looks_ahead(net: cn.Network) -> bool:
    return any(node.lag < 0 for node in net.nodes)


@settings(max_examples=draws(6))
@given(st.randoms(use_true_random=False), st.sampled_from((1, 2, 3)))
def test_random_loops_with_beams_equal_their_prefixes(random: Random, lag: int) -> None:
    _, (out,) = random_loop(random, lag)
    net = cn.Network(outputs={"out": out}, dtype=torch.float64, compile_options=QUICK)
    if looks_ahead(net):
        with pytest.raises(NetworkError, match=r"frames? ahead"):
            net.stepper("out")
        return
    prefix = drawn(net, 2, 0)  # of each beam, what it has been given
    stepper = net.stepper("out", sequences=2)
    for t in range(6):
        new = drawn(net, stepper.sequences, 1, seed=t)
        prefix = {name: np.concatenate([value, new[name]], 2) for name, value in prefix.items()}
        np.testing.assert_allclose(stepper.step(frame(new, 0)), whole(net, "out", prefix)[:, :, -1], atol=1e-12)
        if t % 2:
            chosen = [random.randrange(stepper.sequences) for _ in range(2 if t < 4 else 3)]
            stepper.keep(chosen)
            prefix = {name: value[:, chosen] for name, value in prefix.items()}
    assert stepper.frames == 6


@pytest.mark.parametrize("lag", [1, 2, 3])
def test_defaults_and_initial_states(lag: int) -> None:
    net = recurrence(lag, default=0.7)
    batch = {"x": drawn(net, 3, 5)["x"]}
    np.testing.assert_allclose(stepped(net.stepper(sequences=3), batch), whole(net, "h", batch), atol=1e-12)
    net = recurrence(lag, initial=cn.input("before", 4))
    before = cn.sequences(list(np.random.default_rng(1).normal(size=(3, 4, lag))))
    stepper = net.stepper("h", {"before": before}, sequences=3)
    want = whole(net, "h", batch, before=before)
    stepper.keep([2, 0, 1])
    np.testing.assert_allclose(stepped(stepper, {"x": batch["x"][:, [2, 0, 1]]}), want[:, [2, 0, 1]], atol=1e-12)


def decoder(layout: str) -> cn.Network:
    word = cn.input("word", classes=9)
    hidden = cn.macros.gru(cn.embedding(cn.parameter("E", (3, 9)), word), 4).h
    scores = cn.log_softmax(cn.macros.affine(hidden, 9, name="out"))
    return cn.Network(outputs={"scores": scores, "hidden": hidden}, dtype=torch.float64, layout=layout)


@pytest.mark.parametrize("layout", ["columns", "rows"])
def test_words_and_several_values(layout: str) -> None:
    net = decoder(layout)
    words = np.array([[3, 1, 4, 1], [5, 8, 2, 6]])
    want = net.evaluate("scores", {"word": cn.sequences([each[np.newaxis] for each in words])})
    stepper = net.stepper(sequences=2)
    for t in range(4):
        given = words[:, [t]] if layout == "rows" else words[:, t]
        scores, hidden = stepper.step({"word": given})
        at_t = [each[t] if layout == "rows" else each[:, t] for each in want]
        np.testing.assert_allclose(scores, np.stack(at_t, 0 if layout == "rows" else 1), atol=1e-12)
        assert hidden.shape == ((2, 4) if layout == "rows" else (4, 2))


def test_values_without_samples_components_and_statistics() -> None:
    x, k = cn.input("x", 2), cn.input("k", (2, 2))
    mean = cn.mean(x, name="m")
    tdnn = cn.component("TdnnComponent input-dim=2 output-dim=2 time-offsets=-2,0", cn.minus(x, mean))
    mixed = cn.tanh(cn.tanh(cn.parameter("A", (2, 2)) @ k) @ tdnn)
    net = network(outputs={"y": cn.delay(mixed, 1)})
    with pytest.raises(NetworkError, match="the statistic 'm' is not known yet"):
        net.stepper("y", {"k": np.eye(2)})
    net.compute_statistics([{"x": np.ones((2, 3))}])
    batch, given = {"x": drawn(net, 2, 6)["x"]}, {"k": np.array([[1.0, 2.0], [3.0, 4.0]])}
    np.testing.assert_allclose(stepped(net.stepper("y", given, sequences=2), batch), whole(net, "y", batch, **given))


def test_copies_go_on_by_themselves() -> None:
    net = recurrence(2)
    batch = {"x": drawn(net, 1, 6)["x"]}
    want = whole(net, "h", batch)
    stepper = net.stepper()
    stepper.step(frame(batch, 0))
    other = stepper.copy()
    other.keep([0, 0])
    other.step({"x": np.ones((3, 2))})
    values = [stepper.step(frame(batch, t)) for t in range(1, 6)]
    np.testing.assert_allclose(np.stack(values, 2), want[:, :, 1:], atol=1e-12)
    assert (stepper.frames, stepper.sequences, other.frames, other.sequences) == (6, 1, 2, 2)
    assert repr(other) == "<Stepper: 2 sequences, 2 frames, a state of 16 numbers>"


def test_parameters_and_numbers_are_those_of_the_step() -> None:
    net = recurrence()
    batch = {"x": drawn(net, 1, 4)["x"]}
    want = whole(net, "h", batch)
    stepper = net.stepper()
    first = stepper.step(frame(batch, 0))
    net.to(torch.float32)
    second = stepper.step(frame(batch, 1))
    assert (first.dtype, second.dtype) == (np.float64, np.float32)
    np.testing.assert_allclose(second, want[:, :, 1], atol=1e-5)
    net.to(torch.float64)
    net.set_parameters({"W": np.zeros((4, 3)), "R": np.zeros((4, 4))})
    assert not stepper.step(frame(batch, 2)).any()


def test_programs_are_made_once() -> None:
    cache = ComputationCache()
    net = cn.Network(outputs=[cn.macros.lstm(cn.input("x", 3), 4).h], cache=cache)
    batch = {"x": drawn(net, 2, 5)["x"]}
    stepped(net.stepper(sequences=2), batch)
    compiled = cache.counts.compiled
    stepped(net.stepper(sequences=2), batch)
    assert cache.counts.compiled == compiled == 2  # of the first frame, and of all others


def _ahead(x: Node) -> Node:
    return cn.tanh(cn.delay(x, -2, name="later"))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (_ahead, "'later' looks 2 frames ahead"),
        (lambda x: cn.sequence.softmax(x, name="s"), r"'s' \(.*\) is of whole sequences"),
        (
            lambda x: cn.embedding(cn.parameter("E", (2, 2)), cn.delay(cn.row_slice(x, 0, 1), 1), name="e"),
            r"'e' \(embedding\) looks up an input before each step",
        ),
        (
            lambda x: cn.component("TdnnComponent input-dim=2 output-dim=2 time-offsets=0,1", x, name="t"),
            "'t' looks 1 frame",
        ),
        (
            lambda x: cn.macros.fast_lstm(x, 3, name="l"),
            r"'l.*' \(.*\) is of whole sequences, not computed frame by frame",
        ),
        (lambda x: cn.minus(x, cn.parameter("w", (2, 1)) @ cn.l2_norm(x, name="all")), "is computed of all frames"),
        (lambda x: cn.l2_norm(x, name="all"), "'all' is 1 x 1: it has no value for each frame"),
        (lambda x: x, r"'x' \(input\) is not computed, but given"),
    ],
)
def test_what_has_no_value_frame_by_frame(make: object, words: str) -> None:
    net = network(outputs={"out": make(cn.input("x", 2))})  # type: ignore[operator]
    with pytest.raises(NetworkError, match=words):
        net.stepper("out")


def test_what_is_given_is_checked() -> None:
    net = recurrence(initial=cn.input("before", 4))
    with pytest.raises(NetworkError, match=r"missing inputs: 'before' \(4 x S\)"):
        net.stepper("h")
    with pytest.raises(ShapeError, match="expected a column for each of 2 sequences, got 3"):
        net.stepper("h", {"before": np.zeros((4, 3))}, sequences=2)
    with pytest.raises(NetworkError, match="there is no node 'g' in the network"):
        net.stepper("g")
    with pytest.raises(ArgumentError, match="what a stepper computes must be nodes or their names, got 3"):
        net.stepper(3)  # type: ignore[arg-type]
    for sequences in (0, "2"):
        with pytest.raises(ArgumentError):
            net.stepper("h", {"before": np.zeros((4, 3))}, sequences=sequences)  # type: ignore[arg-type]
    with pytest.raises(NetworkError, match="has no outputs: say which nodes"):
        cn.Network(next(iter(net.criteria))).stepper()
    stepper = net.stepper("h", {"before": np.zeros((4, 2))}, sequences=2)
    for wrong in ({}, {"x": np.zeros((3, 1))}, {"x": np.zeros((2, 2))}, {"x": cn.sequences([np.zeros((3, 1))])}, 5):
        with pytest.raises(Nnet3Error):
            stepper.step(wrong)  # type: ignore[arg-type]
    for numbers in ([], [2], [-1], [0.5], [[0]], "0", [0, [1]], None):
        with pytest.raises(ArgumentError, match="keep takes"):
            stepper.keep(numbers)  # type: ignore[arg-type]
    assert (stepper.frames, stepper.sequences) == (0, 2)


def test_settings_that_change_the_programs() -> None:
    x = cn.input("x", 2)
    net = network(outputs={"y": cn.component("DropoutComponent dim=2 dropout-proportion=0.5", x, name="drop")})
    stepper = net.stepper()
    assert stepper.step({"x": np.ones((2, 1))}).tolist() == [[0.5], [0.5]]
