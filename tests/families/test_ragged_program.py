"""Ragged programs: what restricting gives for sequences of several lengths is what compiling for them gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from random import Random

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from nnet3 import cn
from nnet3.cn.node import Node
from nnet3.engine.driver import CompileTask, ComputationCache
from nnet3.engine.families.ragged_program import RaggedProgram
from nnet3.engine.families.ragged_rows import NotRaggedError
from nnet3.engine.ir.checker import check_computation
from nnet3.engine.ir.commands import Repeat
from nnet3.engine.ir.computation import NnetComputation
from nnet3.errors import NetworkError
from tests.cn.random_graphs import networks
from tests.cn.random_loops import LAGS, random_loop
from tests.effort import EFFORT, at_night, draws
from tests.families.minibatches import minibatch, recurrence
from tests.families.networks import proved_at_night
from tests.seeds import shifted

TOLERANCE = 1e-10
LENGTHS = st.lists(st.integers(1, 40), min_size=1, max_size=12)
SHORT = st.lists(st.integers(1, 15), min_size=1, max_size=5)


class Compiling(ComputationCache):
    """Compiles every program for its shape, for others to be compared with."""

    def program(self, task: CompileTask) -> NnetComputation:
        with proved_at_night():
            return super().program(task)

    def ragged(self, task: CompileTask, apart: Callable[[], CompileTask], length: int) -> None:
        return None


def compare(criterion: Node, outputs: Sequence[Node], lengths: Sequence[int]) -> ComputationCache:
    """Compare with programs compiled for the lengths; values of the shortest and the longest sequence with it alone."""
    cache = ComputationCache()
    ours, theirs = (cn.Network(criterion, outputs, cache=c, dtype=torch.float64) for c in (cache, Compiling()))
    batch = minibatch(ours, lengths)
    wanted = [node for node in outputs if node.shape.has_samples]
    (value, found), (compiled, expected) = (
        net.criterion_and_gradients(batch, wrt=[*wanted, *net.inputs], training=False) for net in (ours, theirs)
    )
    check_computation(ours.program(batch))
    assert value == pytest.approx(compiled, rel=TOLERANCE)
    for name, gradient in expected.items():
        check_equal(found[name], gradient)
    for node in wanted:
        check_equal(ours.evaluate(node, batch), theirs.evaluate(node, batch))
        for n in {int(np.argmax(lengths)), int(np.argmin(np.where(lengths, lengths, max(lengths))))}:
            alone = theirs.evaluate(node, {name: cn.sequences([each[n]]) for name, each in batch.items()})
            check_equal(ours.evaluate(node, batch)[n], alone[0])
    return cache


def check_equal(one: np.ndarray | list[np.ndarray], other: np.ndarray | list[np.ndarray]) -> None:
    pairs = zip(one, other, strict=True) if isinstance(one, list) else [(one, other)]
    for mine, theirs in pairs:
        np.testing.assert_allclose(mine, theirs, rtol=TOLERANCE, atol=TOLERANCE)


@settings(max_examples=draws(3))
@given(st.sampled_from([1, 2, 3, -1, -2, -3]), st.sampled_from(["plain", "late"]), LENGTHS)
def test_recurrences(lag: int, kind: str, lengths: list[int]) -> None:
    cache = compare(*recurrence(lag, kind), lengths)
    assert (cache.counts.restricted > 0) == (len(set(lengths)) > 1)


@settings(max_examples=EFFORT)
@given(SHORT)
def test_both_directions(lengths: list[int]) -> None:
    assert (compare(*recurrence(1, "both ways"), lengths).counts.restricted > 0) == (len(set(lengths)) > 1)


@pytest.mark.parametrize("lag", [1, -2, *at_night(2, 3, -1, -3)])
@pytest.mark.parametrize("function", [None, cn.sigmoid])
def test_what_is_made_of_a_delay_that_looks_ahead_in_a_loop(lag: int, function: Callable[[Node], Node] | None) -> None:
    """At the end of a sequence the delay is zero, and what is made of it with an operand is not."""
    x, u = cn.input("x", 1), cn.input("u", 1)
    delay = cn.delay(None, lag, dim=2)
    stack = cn.row_stack(x, (function(delay) if function else delay) + u)
    delay.connect(cn.parameter("W", (2, 3), 0.5 * np.random.default_rng(shifted(0)).normal(size=(2, 3))) @ stack)
    criterion = cn.square_error(u, cn.parameter("V", (1, 3), np.ones((1, 3))) @ stack)
    for lengths in ([1, 7], *at_night([5, 4, 3, 2, 1], [40, 33, 33, 2]), [20, 17, 17, 2]):
        assert compare(criterion, [stack], lengths).counts.restricted


@settings(max_examples=draws(4))
@given(st.randoms(use_true_random=False), st.sampled_from(LAGS), st.lists(st.integers(1, 9), min_size=2, max_size=5))
def test_random_loops(random: Random, lag: int, lengths: list[int]) -> None:
    with suppress(NetworkError):
        compare(*random_loop(random, lag), lengths)


def test_carried_states() -> None:
    """An empty sequence has a state too."""
    assert compare(*recurrence(2, "carried"), [3, 0, 7]).counts.restricted
    assert not compare(*recurrence(-1, "carried"), [3, 1, 7]).counts.restricted


@settings(max_examples=draws(8))
@given(networks(), st.lists(st.integers(1, 12), min_size=2, max_size=6))
def test_random_networks(made: tuple[Node, Node, object], lengths: list[int]) -> None:
    criterion, last, _ = made
    with suppress(NetworkError):
        compare(criterion, [last], lengths)


@pytest.mark.parametrize("lags", [(2, -1), (-1, 2), *at_night((1, -3), (-2, -1), (2, 1))])
def test_delays_of_delays(lags: tuple[int, int]) -> None:
    """What looks ahead at something earlier ends before it does."""
    x = cn.input("x", 2)
    delayed = cn.delay(cn.row_slice(cn.row_stack(cn.delay(x, lags[0]), x), 0, 2), lags[1])
    cache = compare(cn.square_error(x, delayed), [delayed], [6, 5, 11, 3, 1])
    assert (cache.counts.restricted > 0) == (lags not in ((2, -1), (1, -3)))


def test_other_values_than_zero_beyond_the_end() -> None:
    x = cn.input("x", 2)
    for lag, default in ((1, 0.5), (-1, 0.5), (-1, 0.0)):
        delayed = cn.delay(x, lag, default)
        cache = compare(cn.square_error(x, delayed), [delayed], [4, 2])
        assert (cache.counts.restricted > 0) == (lag > 0 or default == 0)


def test_one_program_serves_all_lengths() -> None:
    criterion, outputs = recurrence(1, "plain")
    cache = ComputationCache()
    network = cn.Network(criterion, outputs, cache=cache)
    for lengths in ((20, 17, 3), (24, 23), (18, 18, 1, 1)):
        network.gradients(minibatch(network, lengths))
    assert (cache.counts.compiled, cache.counts.continued, cache.counts.restricted) == (0, 3, 3)
    for lengths in ((21, 18, 4), (24, 17), (19, 18, 17, 5)):
        network.gradients(minibatch(network, lengths))
    assert (cache.counts.compiled, cache.counts.continued, cache.counts.restricted) == (0, 3, 6)


@pytest.mark.parametrize(("lag", "kind"), [(-3, "plain"), *at_night((2, "plain"), (3, "late"))])
def test_a_recurrence_is_a_loop_for_all_lengths(lag: int, kind: str) -> None:
    """Gradients included; an iteration goes on by as many frames as the lag."""
    criterion, outputs = recurrence(lag, kind)
    network = cn.Network(criterion, outputs, cache=ComputationCache())
    programs = [network.program(minibatch(network, lengths)) for lengths in ((180, 150, 7), (360, 200, 31))]
    assert len({len(program.commands) for program in programs}) == 1
    iterations = [[command.iterations for command in each.commands if isinstance(command, Repeat)] for each in programs]
    assert np.subtract(iterations[1], iterations[0]).tolist() == [180 // abs(lag)] * 2


@pytest.mark.parametrize("lags", [(-2, -3), *at_night((1, 2), (2, 3), (6, 4))])
def test_a_recurrence_of_two_lags_is_a_loop(lags: tuple[int, int]) -> None:
    """It goes on by as many frames as the shorter lag."""
    x, labels = cn.input("x", 3), cn.input("labels", 2)
    states = [cn.delay(None, lag, dim=3) for lag in lags]
    rng = np.random.default_rng(shifted(0))
    terms = [cn.parameter(f"R{i}", (3, 3), 0.5 * rng.normal(size=(3, 3))) @ each for i, each in enumerate(states)]
    h = cn.tanh(cn.plus(cn.plus(x, terms[0]), terms[1]))
    for state in states:
        state.connect(h)
    out = cn.macros.affine(h, 2, name="out")
    cache = compare(cn.cross_entropy_with_softmax(labels, out, name="J"), [out], [70, 69, 68, 30, 1])
    assert cache.counts.restricted
    assert not cache.counts.compiled
    network = cn.Network(cn.cross_entropy_with_softmax(labels, out), cache=cache)
    iterations = [
        command.iterations
        for command in network.program(minibatch(network, [190, 150, 3])).commands
        if isinstance(command, Repeat)
    ]
    assert len(iterations) == 2
    assert max(iterations) <= 190 // min(map(abs, lags)) < min(iterations) + 5


def test_refusals_are_named() -> None:
    x = cn.input("x", 2)
    delayed = cn.delay(x, 1)
    network = cn.Network(cn.square_error(x, cn.plus(delayed, cn.delay(delayed, 1))), cache=ComputationCache())
    program = network.program({"x": cn.sequences([np.ones((2, 8))] * 2)}).copy()
    program.matrix_info.clear()
    with pytest.raises(NotRaggedError, match="the rows of matrix m1 have no indexes"):
        RaggedProgram(program, lambda info: np.zeros(0))
