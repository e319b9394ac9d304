"""Random networks: equal to autograd, with and without the optimizer, asynchronous or not; `make soak`: 1,000 each."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import numpy as np
import pytest
import torch
from hypothesis import Phase, assume, find, given, settings, strategies as st

from nnet3 import ComputationCache, cn
from nnet3.cn.asynchronous import POLICIES
from nnet3.cn.nodes.functions import FUNCTIONS
from nnet3.cn.operation_types import OPERATIONS
from nnet3.engine.driver import CompileTask
from nnet3.engine.ir.computation import NnetComputation
from nnet3.errors import NetworkError
from tests.cn.random_graphs import networks
from tests.cn.reference import columns, compare
from tests.effort import EFFORT, draws, nightly
from tests.families.networks import compiled_alone, same_program

# Delays of samples that are no sequences have their defaults.
pytestmark = pytest.mark.filterwarnings("ignore:.*whose columns are samples that have nothing to do with each other")


def network_of(made) -> tuple[cn.Network, dict[str, object]]:
    criterion, last, inputs = made
    try:
        network = cn.Network(criterion, {"last": last}, dtype=torch.float64)
    except NetworkError:
        assume(False)
    return network, {node.name: inputs[node.name] for node in network.inputs}


@settings(max_examples=draws(20))
@given(networks())
def test_values_and_gradients_equal_autograd(made) -> None:
    compare(*network_of(made))


@settings(max_examples=draws(8))  # `make soak` compares any number
@given(networks())
def test_the_optimizer_changes_nothing(made) -> None:
    network, inputs = network_of(made)
    gradients = network.gradients(inputs)
    network.optimize = False
    for name, gradient in network.gradients(inputs).items():
        np.testing.assert_allclose(gradient, gradients[name], rtol=1e-8, atol=1e-10)


@settings(max_examples=draws(10))
@given(networks(), st.sampled_from(sorted(POLICIES)))
def test_asynchronous_equals_synchronous(made, policy) -> None:
    network, inputs = network_of(made)
    found = cn.AsynchronousEvaluator(network, 2, policy).evaluate(["last", made[0]], inputs)
    for ours, theirs in zip(found, network.evaluate(["last", made[0]], inputs), strict=True):
        np.testing.assert_allclose(columns(ours), columns(theirs), rtol=1e-12, atol=1e-14)


@settings(max_examples=draws(6))
@given(networks(), st.sampled_from(sorted(POLICIES)), st.sampled_from((1, 2, 3)), st.booleans())
def test_asynchronous_gradients_equal_synchronous_ones(made, policy, workers, copies) -> None:
    """Those of parameters, of inputs and of nodes inside units; of a second run, too."""
    network, inputs = network_of(made)
    wrt = [node for node in network.nodes if not node.operation.options().get("constant")]
    evaluator = cn.AsynchronousEvaluator(network, workers, policy, devices=["cpu", "cpu:0"] if copies else None)
    for _ in range(2):
        value, gradients = evaluator.criterion_and_gradients(inputs, wrt=wrt)
        expected_value, expected = network.criterion_and_gradients(inputs, wrt=wrt)
        np.testing.assert_allclose(value, expected_value, rtol=1e-12)
        assert gradients.keys() == expected.keys()
        for name, gradient in expected.items():
            np.testing.assert_allclose(
                columns(gradients[name]), columns(gradient), rtol=1e-12, atol=1e-12, err_msg=name
            )


class CheckingCache(ComputationCache):
    """Compares each program that it gives with the one that is compiled for its shape."""

    def program(self, task: CompileTask) -> NnetComputation:
        program = super().program(task)
        assert same_program(program, compiled_alone(task))
        return program


def values(network: cn.Network, lengths: Sequence[int], are_sequences: bool) -> dict[str, object]:
    """Numbers for the inputs of a network: sequences of these lengths, or as many samples that are none."""
    rng = np.random.default_rng(len(lengths))
    arrays = {node.name: [rng.normal(size=(node.shape.rows, t)) for t in lengths] for node in network.inputs}
    return {name: cn.sequences(own) if are_sequences else np.concatenate(own, 1) for name, own in arrays.items()}


@settings(max_examples=draws(4))
@given(
    networks(),
    st.sampled_from([[0], [0, 0], [0] * 7, [0] * 64, [0, 3], [4, 2, 2]]),
    st.lists(st.integers(1, 38), min_size=2, max_size=min(2 + EFFORT, 4)),
)
def test_programs_of_all_shapes_are_those_that_are_compiled(made, more, lengths) -> None:
    """Of 1, 2, 7 and 64 sequences from the shortest to 40 frames, of some that differ by a few frames, of samples."""
    criterion, last, inputs = made
    try:
        network = cn.Network(criterion, {"last": last}, cache=CheckingCache())
    except NetworkError:
        assume(False)
    are_sequences = any(isinstance(value, cn.Sequences) for value in inputs.values())
    for frames in (40, 39, *lengths):
        network.gradients(values(network, [frames + each for each in more], are_sequences))


@settings(max_examples=draws(4))
@given(networks(), st.lists(st.integers(1, 40), min_size=1, max_size=4))
def test_long_sequences_equal_autograd(made, lengths) -> None:
    """Their programs are continued from short ones, and restricted to several lengths."""
    network, inputs = network_of(made)
    are_sequences = any(isinstance(value, cn.Sequences) for value in inputs.values())
    for frames in (40, 38):
        network.gradients(values(network, [frames] * len(lengths), are_sequences))
    compare(network, values(network, lengths, are_sequences))


@nightly
def test_most_networks_are_continued() -> None:
    """A recurrent network with a delay, in batches of three sequences."""
    x = cn.input("x", 3)
    lstm = cn.macros.lstm(x, 4)
    cache = CheckingCache()
    network = cn.Network(cn.square_error(lstm.h, cn.delay(lstm.h, 2, dim=4)), cache=cache)
    for frames in (40, 30, 45, 20, 90):
        network.gradients({"x": cn.sequences([np.ones((3, frames))] * 3)})
    assert (cache.counts.compiled, cache.counts.continued) == (1, 4)


@nightly
def test_random_networks_are_various() -> None:
    absent = {"dropout", "classification_error", "mean", "inv_std_dev", "per_dim_mean_var_norm", "component", "relu"}
    absent |= {"class_cross_entropy", "where", "row_step", "transpose", "layer_norm", "reduce_rows", *FUNCTIONS}
    ours = {name for name, made in OPERATIONS.items() if made.__module__.startswith("nnet3.") and not made.is_whole}
    types: set[str] = set()

    def completes_them(made) -> bool:
        with suppress(NetworkError):
            types.update(node.type for node in cn.Network(made[0]).nodes)
        return ours - absent <= types

    find(networks(), completes_them, settings=settings(max_examples=4000, phases=[Phase.generate]))
