"""One cache, all shapes: a member is the program compiled for its shape, command by command and in numbers.

Golden and random networks, with derivatives and updates; frames from the fewest to 40 periods (20 by default); 1, 2, 7
and 64 sequences. Values are those of the slow network, too, for sequences of several lengths.
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Iterator

import numpy as np
import pytest
import torch

import nnet3
from nnet3.engine.driver.cache import CacheCounts
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.lowering.structure import structure_of
from nnet3.model.requests import nnet_source
from tests.driver.ragged_requests import compare, ragged_request, updated
from tests.effort import EFFORT, at_night, draws
from tests.families.networks import compiled, request_for, results_of, same_program, same_program_or_results
from tests.random_networks import ALL_LAYERS, LAYERS, computable_request, random_network
from tests.seeds import shifted
from tests.shared_data import GOLDEN, golden_cases, needs_shared
from tests.slow_graph import SlowGraph, SlowNet
from tests.slow_network import SlowNetwork

MOST_PERIODS, NUMBERS = 40, (1, 2, 7, 64)
FEW_PERIODS = MOST_PERIODS if EFFORT > 1 else 20  # enough for networks that do not look far
MARGIN = 12  # frames of input before and behind those of outputs
_DEEP = 20_000  # calls of the slow network that wait for each other: each step of a recurrence takes some


def shapes(nnet: nnet3.Nnet, rng: random.Random, most: int) -> Iterator[tuple[int, int]]:
    """Yields frames and numbers of sequences; of each number the longest first, which confirms the family."""
    source = nnet_source(nnet)
    period = math.lcm(source.period or 1, structure_of(source).lag)
    for sequences in rng.sample(NUMBERS, min(EFFORT, len(NUMBERS))):
        fewer = range(1, most - 1)
        for periods in (most, most - 1, *rng.sample(fewer, min(2 * EFFORT - 1, len(fewer)))):
            yield periods * period, sequences


def check_numbers(
    nnet: nnet3.Nnet, request: nnet3.ComputationRequest, program: NnetComputation, exact: NnetComputation
) -> None:
    """Values, derivatives, gradients and parameters after a step: to the bit where sums have the same order."""
    same, runs = same_program(program, exact), [results_of, *([updated] if request.need_model_derivative else [])]
    for run in runs:
        for found, expected in zip(run(nnet, request, program), run(nnet, request, exact), strict=True):
            tolerance = 0 if same else 1e-9
            torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance, equal_nan=True)


def check_shapes(
    nnet: nnet3.Nnet, seed: int, most: int = FEW_PERIODS, margin: int = MARGIN, *, run: bool = True
) -> CacheCounts:
    rng, cache = random.Random(shifted(seed)), nnet3.ComputationCache()
    train, by_time = rng.random() < 0.6, rng.random() < 0.5
    for frames, sequences in shapes(nnet, rng, most):
        request = computable_request(
            nnet, request_for(nnet, frames, sequences, margin=margin, train=train, by_time=by_time)
        )
        if request is None:
            continue
        program, exact = cache.compile(nnet, request), compiled(nnet, request)
        assert same_program_or_results(nnet, request, program, exact), f"{frames} frames of {sequences} sequences"
        if run and rng.random() < 0.3:
            check_numbers(nnet, request, program, exact)
    return cache.counts


def check_ragged(nnet: nnet3.Nnet, seed: int) -> None:
    """The same of sequences of several lengths."""
    rng, cache = random.Random(shifted(seed)), nnet3.ComputationCache()
    for _ in range(EFFORT):
        lengths = rng.choices(range(1, MOST_PERIODS + 1), k=rng.randint(2, 7))
        flags = {name: rng.random() < 0.6 for name in ("train", "by_time", "input_deriv")}
        request = computable_request(nnet, ragged_request(nnet, lengths, margin=MARGIN, **flags))
        if request is not None:
            compare(nnet, request, cache)


def test_random_networks() -> None:
    layers = ALL_LAYERS, LAYERS
    counts = [check_shapes(random_network(seed, layers=layers[seed % 2]).nnet(), seed) for seed in range(draws(4))]
    assert sum(each.continued > 0 for each in counts) >= len(counts) / 2


@needs_shared
def test_golden_networks() -> None:
    folders = sorted((GOLDEN / "random").iterdir())
    for number, folder in enumerate(random.Random(shifted(0)).sample(folders, min(draws(2), len(folders)))):
        nnet = nnet3.Nnet.from_config((folder / "config_0.txt").read_text(), seed=1)
        check_shapes(nnet, number)
        check_ragged(nnet, number)


@pytest.mark.usefixtures("undrawn")
def test_published_networks() -> None:
    """Their programs; they are too large to be run here for 64 sequences."""
    cases = golden_cases("xconfig")
    for case in random.Random(shifted(0)).sample(cases, min(draws(2), len(cases))):
        nnet = nnet3.Nnet.from_xconfig((case / "network.xconfig").read_text())
        margin = max(nnet.left_context, nnet.right_context)
        assert check_shapes(nnet, 0, MOST_PERIODS, margin, run=False).continued > 0, case


@pytest.fixture
def deep_recursion() -> Iterator[None]:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(_DEEP)
    yield
    sys.setrecursionlimit(before)


@pytest.mark.usefixtures("deep_recursion")
@pytest.mark.parametrize("lengths", [(31, 12, 7, 7), *at_night((30, 30), (25, 24))])
def test_values_are_those_of_the_slow_network(lengths: tuple[int, ...]) -> None:
    """Of requests that are continued, and of those that are restricted to several lengths."""
    made = 0
    for seed in range(draws(4)):
        found, nnet = random_network(seed + 100 * len(lengths)), random_network(seed + 100 * len(lengths)).nnet()
        nnet.to(dtype=torch.float64)
        cache, longest = nnet3.ComputationCache(), [40] * len(lengths)
        first, request = (
            computable_request(nnet, ragged_request(nnet, each, margin=MARGIN)) for each in (longest, lengths)
        )
        if first is None or request is None:
            continue
        cache.compile(nnet, first)
        generator = np.random.default_rng(seed)
        inputs = {
            io.name: generator.standard_normal((len(io.indexes), nnet.node_dim(io.name))) for io in request.inputs
        }
        computer = nnet3.NnetComputer(cache.compile(nnet, request), nnet)
        for name, matrix in inputs.items():
            computer.accept_input(name, matrix)
        computer.run()
        slow = SlowNetwork(nnet, SlowGraph(SlowNet.from_config(found.config), request), inputs, request)
        for io in request.outputs:
            np.testing.assert_allclose(computer.get_output(io.name), slow.output(io), rtol=1e-9, atol=1e-9)
        made += cache.counts.continued + cache.counts.restricted
    assert made > 0
