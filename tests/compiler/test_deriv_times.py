"""Derivatives limited to a range of times: against a backward pass with masked rows, and what is left out."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import nnet3
from masked_network import MaskedNetwork
from random_cases import Case, assert_equal
from random_networks import LAYERS, random_network
from slow_graph import SlowGraph, SlowNet

PLAIN = nnet3.CompileOptions(optimize=False)
OPTIMIZED = nnet3.CompileOptions()
RECURRENT = ("rnn", "deep_rnn", "nested_rnn", "failover_rnn", "clockwork", "lstm")


def limited(options: nnet3.CompileOptions, first: int | None, last: int | None) -> nnet3.CompileOptions:
    return nnet3.CompileOptions(options.optimize, check=True, min_deriv_time=first, max_deriv_time=last)


def random_times(case: Case) -> tuple[int, int]:
    assert case.request is not None
    ts = np.concatenate([io.indexes[:, 1] for io in (*case.request.inputs, *case.request.outputs)])
    first, last = np.sort(case.rng.integers(ts.min() - 1, ts.max() + 2, 2)).tolist()
    return first, last


def masked(case: Case, times: tuple[int, int]) -> dict[str, torch.Tensor]:
    assert case.request is not None
    graph = SlowGraph(SlowNet.from_config(case.random.config), case.request)
    slow = MaskedNetwork(case.nnet, graph, case.inputs, case.request)
    found = slow.gradients(case.request, case.derivs, times)
    if not case.request.need_model_derivative:
        found = {name: tensor for name, tensor in found.items() if name.startswith("deriv of ")}
    return found


def check(seed: int, layers: tuple[str, ...]) -> bool:
    case = Case(random_network(seed, layers=layers))
    if case.request is None or not case.request.needs_backward:
        return False
    for _ in range(2):
        times = random_times(case)
        want = masked(case, times)
        plain, optimized = case.run(limited(PLAIN, *times)), case.run(limited(OPTIMIZED, *times))
        assert_equal({name: plain[name] for name in want}, want, case)
        assert_equal(optimized, plain, case)
    return True


@pytest.mark.parametrize("block", range(6))
def test_equals_masked_rows(block: int) -> None:
    assert sum(check(seed, tuple(LAYERS)) for seed in range(3000 + 6 * block, 3006 + 6 * block))


@pytest.mark.parametrize("block", range(4))
def test_recurrences_equal_masked_rows(block: int) -> None:
    assert sum(check(seed, RECURRENT) for seed in range(4000 + 6 * block, 4006 + 6 * block))
