"""The full text of compiled programs is all that a run needs: of random networks of both kinds, loops, ragged ones."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
import torch

import nnet3
from nnet3 import ComputationCache, cn
from nnet3.engine.driver import CompileTask
from nnet3.engine.ir.computation import NnetComputation
from nnet3.errors import NetworkError
from tests.cn.random_graphs import random_graph
from tests.cn.random_loops import random_loop_graph
from tests.driver.ragged_requests import ragged_request
from tests.effort import EFFORT, draws, nightly
from tests.families.networks import BLSTM, POOLING, TDNN, request_for, results_of
from tests.ir.program_text import read_again
from tests.random_networks import ALL_LAYERS, computable_request, random_network
from tests.seeds import shifted


def check_runs_alike(nnet: nnet3.Nnet, request: nnet3.ComputationRequest, program: NnetComputation) -> None:
    """The program that is read of the text gives the same bits."""
    read = read_again(program)
    pairs = zip(*(results_of(nnet, request, each) for each in (program, read)), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)


@nightly
@pytest.mark.parametrize("seed", range(5 * EFFORT))
def test_random_networks(seed: int) -> None:
    network = random_network(seed, layers=ALL_LAYERS)
    nnet = network.nnet()
    request = computable_request(nnet, network.request)
    if request is not None:
        check_runs_alike(nnet, request, nnet3.compile(nnet, request))


class ReadingCache(ComputationCache):
    """Gives the programs that are read of the texts of programs."""

    def program(self, task: CompileTask) -> NnetComputation:
        return read_again(super().program(task))


@pytest.mark.filterwarnings("ignore:.*whose columns are samples that have nothing to do with each other")
@pytest.mark.parametrize("make", [random_graph, random_loop_graph])
@pytest.mark.parametrize("seed", range(draws(8)))
def test_random_computational_networks(make: type, seed: int) -> None:
    criterion, last, inputs = make(Random(shifted(seed)))
    try:
        networks = [cn.Network(criterion, {"last": last}, cache=cache()) for cache in (ComputationCache, ReadingCache)]
    except NetworkError:
        pytest.skip("a value that needs itself")
    given = {node.name: inputs[node.name] for node in networks[0].inputs}
    one, other = (network.gradients(given) for network in networks)
    for name, gradient in one.items():
        np.testing.assert_array_equal(other[name], gradient, err_msg=name)


@pytest.mark.parametrize("config", [BLSTM, TDNN, POOLING])
@pytest.mark.parametrize("train", [False, True])
def test_members_of_families_and_restricted_ones(config: str, train: bool) -> None:
    nnet = nnet3.Nnet.from_config(config)
    family = nnet3.compile_family(nnet, request_for(nnet, 120, 2, train=train))
    for frames in (family.frames + family.step, family.frames + 4 * family.step):
        program = family.at(frames, 2)
        check_runs_alike(nnet, request_for(nnet, frames, 2, train=train), program)
        assert any(program.repeats()) == (config is BLSTM)
    cache = ComputationCache()
    request = ragged_request(nnet, [53, 40, 31], train=train)
    program = cache.program(request.task(nnet))
    assert cache.counts.restricted == 1
    assert bool(program.iterations) == (config is BLSTM)
    check_runs_alike(nnet, request, program)
