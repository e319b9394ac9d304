"""Families: their members are what the compiler makes for each length, command by command."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import nnet3
from nnet3.engine.driver.family_store import precompute_of
from nnet3.engine.driver.task import compile_task
from nnet3.engine.families.family import ProgramFamily
from tests.effort import at_night, nightly
from tests.families.networks import BLSTM, POOLING, TDNN, compiled, request_for, same_program
from tests.shared_data import GOLDEN, needs_shared

#: Lengths to try, the shortest member, and the input beyond: POOLING needs long requests. BLSTM goes three frames at
#: once.
FORMS = {BLSTM: ((25, 31, 49), 0, 6), TDNN: ((20, 19, 45), 0, 40), POOLING: ((260, 275, 400), 32, 40)}


def family_of(nnet: nnet3.Nnet, request: nnet3.ComputationRequest, first: int = 0) -> ProgramFamily:
    series = request.task(nnet).series()
    assert series is not None
    return ProgramFamily([compile_task(series.shorter(first + k)[0]) for k in range(2)])


def check_members(nnet: nnet3.Nnet, lengths: tuple[int, ...], first: int = 0, **how: bool | int) -> None:
    family = family_of(nnet, request_for(nnet, lengths[0], **how), first)
    for length in lengths:
        request = request_for(nnet, length, **how)
        task = request.task(nnet)
        series = task.series()
        assert series is not None
        assert same_program(family.at(series.k - first, precompute_of(task)), compiled(nnet, request))


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("sequences", [1, 2, 3])
@pytest.mark.parametrize("config", [BLSTM, TDNN, POOLING])
def test_members_are_the_compiled_programs(config: str, sequences: int, train: bool) -> None:
    nnet = nnet3.Nnet.from_config(config, seed=1)
    lengths, first, margin = FORMS[config]
    check_members(nnet, lengths, first, sequences=sequences, train=train, by_time=sequences != 2, margin=margin)


def test_outputs_at_every_third_frame() -> None:
    check_members(nnet3.Nnet.from_config(BLSTM, seed=1), (20, 33), step=3, margin=6, train=True)


@nightly
@needs_shared
@pytest.mark.parametrize("name", ["tdnn_lstm", *at_night("tdnnf_small", "blstm")])
def test_members_of_published_networks(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(GOLDEN / "bench" / name)
    nnet = nnet3.Nnet.from_config_file(str(Path("final.config")))
    for train in (False, True):
        check_members(nnet, (31,), step=3, margin=40, train=train)


def test_members_run_to_the_same_bits() -> None:
    nnet = nnet3.Nnet.from_config(BLSTM, seed=1)
    request = request_for(nnet, 52, 3, train=True)
    task = request.task(nnet)
    series = task.series()
    assert series is not None
    results = []
    for program in (family_of(nnet, request).at(series.k, precompute_of(task)), compiled(nnet, request)):
        gradient = nnet.gradient_copy()
        computer = nnet3.NnetComputer(program, nnet, gradient)
        generator = torch.Generator().manual_seed(3)
        computer.accept_input("input", torch.randn(len(request.inputs[0].indexes), 3, generator=generator))
        computer.run()
        output = computer.get_output("output").clone()
        computer.accept_input("output", torch.randn(output.shape, generator=generator))
        computer.run()
        results.append([output, *(p for c in gradient.components.values() for p in c.parameters().values())])
    assert all(torch.equal(one, other) for one, other in zip(*results, strict=True))
