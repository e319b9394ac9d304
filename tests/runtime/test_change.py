"""A computer that is changed to other programs, of one family and of others, does what one made for each does."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

import nnet3
from nnet3.engine.runtime import computer as computer_module, plan_of
from nnet3.engine.runtime.constants import Constants
from nnet3.engine.runtime.kernels import Kernels
from nnet3.engine.runtime.link import link
from nnet3.engine.runtime.memory import Arena
from nnet3.engine.runtime.view_tensors import ViewTensors
from nnet3.errors import ExecutionError
from tests.effort import draws
from tests.families.networks import BLSTM, POOLING, TDNN, request_for

CACHE = nnet3.ComputationCache()


def results(
    computer: nnet3.NnetComputer, request: nnet3.ComputationRequest, seed: int, *, backward: bool
) -> list[torch.Tensor]:
    """What the runs give; after the forward one alone the backward one is still to come."""
    rng = np.random.default_rng(seed)

    def rows(ios: Any) -> dict[str, torch.Tensor]:
        shapes = {io.name: (len(io.indexes), computer._nnets[0].node_dim(io.name)) for io in ios}  # type: ignore[attr-defined]
        return {name: torch.tensor(rng.normal(size=shape)).float() for name, shape in shapes.items()}

    found = [*computer.compute(rows(request.inputs)).values()]
    if backward:
        computer.compute(rows(request.outputs))
    return found


STEPS = st.lists(
    st.tuples(st.integers(15, 80), st.sampled_from([1, 6]), st.booleans(), st.booleans()), min_size=2, max_size=8
)


@settings(max_examples=draws(5))
@given(st.sampled_from([TDNN, BLSTM, POOLING]), STEPS)
def test_in_any_order(config: str, steps: list[tuple[int, int, bool, bool]]) -> None:
    """Lengths, numbers of sequences, with and without training; some give up before the backward run."""
    nnet = nnet3.Nnet.from_config(config, seed=1)
    learned = nnet.copy(), nnet.copy()
    computer = None
    for seed, (frames, sequences, train, ends) in enumerate(steps):
        request = request_for(nnet, frames, sequences, train=train)
        program = CACHE.compile(nnet, request)
        if computer is None:
            computer = nnet3.NnetComputer(program, nnet, learned[0])
        else:
            computer.change(program)
        alone = nnet3.NnetComputer(program.copy(), nnet, learned[1])
        both = [results(each, request, seed, backward=train and ends) for each in (computer, alone)]
        assert all(map(torch.equal, *both))
        assert computer.computation is program
    parameters = [[value for c in each.components.values() for value in c.parameters().values()] for each in learned]
    assert all(map(torch.equal, *parameters))


@pytest.mark.parametrize("they_part", [False, True])
def test_members_of_a_family_are_linked_once(they_part: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """And once more, with a tensor for each view, where views of one tensor part."""
    nnet, move, may_move = nnet3.Nnet.from_config(TDNN, seed=1), ViewTensors.move, iter([not they_part])
    monkeypatch.setattr(ViewTensors, "move", lambda self, to: next(may_move, True) and move(self, to))
    are_apart = list[bool]()
    linked: list[int] = []
    monkeypatch.setattr(computer_module, "link", lambda *args, **named: linked.append(1) or link(*args, **named))  # type: ignore[func-returns-value]
    requests = [request_for(nnet, frames) for frames in (90, 60, 89, 70, 41, 88, 70)]
    programs = [CACHE.compile(nnet, request) for request in requests]
    computer = nnet3.NnetComputer(programs[0], nnet)
    plan_of(programs[1], "float32")  # the first of a family is planned alone
    for request, program in list(zip(requests, programs, strict=True))[2:]:
        computer.change(program)
        found, alone = results(computer, request, 1, backward=False), nnet3.NnetComputer(program.copy(), nnet)
        assert all(map(torch.equal, found, results(alone, request, 1, backward=False)))
        are_apart.append(computer.plan.are_views_apart)
    assert len(linked) - len(requests[2:]) == 1 + they_part
    assert are_apart == [False, they_part, False, False, False]


LOOP = """
    input-node name=input dim=3
    component name=f type=NaturalGradientAffineComponent input-dim=7 output-dim=16
    component name=lstm type=LstmNonlinearityComponent cell-dim=4
    component name=o type=TdnnComponent input-dim=4 output-dim=4 time-offsets=-1,0
    component-node name=gates component=f input=Append(input, IfDefined(Offset(m, -1)))
    component-node name=lstm component=lstm input=Append(gates, IfDefined(Offset(c, -1)))
    dim-range-node name=c input-node=lstm dim-offset=0 dim=4
    dim-range-node name=m input-node=lstm dim-offset=4 dim=4
    component-node name=o component=o input=m
    output-node name=output input=o
"""


@pytest.mark.parametrize(
    ("config", "train", "is_the_same"),
    [(TDNN, False, True), (TDNN, True, True), (POOLING, False, False), (POOLING, True, False)],
)
def test_tables_are_loaded_where_they_are_others(
    config: str, train: bool, is_the_same: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks, and rows in no block, count from the first row or from the last; those in groups have numbers."""
    monkeypatch.setenv("NNET3_PROVE", "forms")  # proofs of links load tables, too
    nnet, cache = nnet3.Nnet.from_config(config, seed=1), nnet3.ComputationCache()
    requests = [request_for(nnet, frames, 2, train=train) for frames in (90, 60, 70, 80, 75)]
    programs = [cache.compile(nnet, request) for request in requests]
    loads: list[int] = []
    load = Constants.load
    monkeypatch.setattr(Constants, "load", lambda *args: loads.append(1) or load(*args))  # type: ignore[func-returns-value]
    computer, learned = nnet3.NnetComputer(programs[0], nnet, nnet.copy()), nnet.copy()
    counts = []
    for number, (request, program) in enumerate(zip(requests, programs, strict=True)):
        alone = nnet3.NnetComputer(program.copy(), nnet, learned)
        computer.change(program)
        before = len(loads)
        found = results(computer, request, number, backward=train)
        counts.append(len(loads) - before)
        assert all(map(torch.equal, found, results(alone, request, number, backward=train)))
    assert counts[0] > 0
    assert counts[-2:] == ([0, 0] if is_the_same else counts[:1] * 2)


def test_after_a_loop_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is bound anew after that runs once, not once for each iteration of the loop."""
    nnet = nnet3.Nnet.from_config(LOOP, seed=1)
    requests = [request_for(nnet, frames, 2, train=True) for frames in (60, 75, 90, 81)]
    programs = [CACHE.compile(nnet, request) for request in requests]
    for program in programs:
        plan_of(program, "float32")
    computer, others = nnet3.NnetComputer(programs[2], nnet, nnet.copy()), nnet.copy()
    lstm, calls = type(nnet.components["lstm"]), [0]
    forward = lstm.forward

    def fail(*args: Any, **named: Any) -> Any:
        calls[0] += 1
        if calls[0] == 40:
            raise KeyboardInterrupt
        return forward(*args, **named)

    monkeypatch.setattr(lstm, "forward", fail)
    with pytest.raises(KeyboardInterrupt):
        results(computer, requests[2], 1, backward=False)
    computer.change(programs[1])
    found = results(computer, requests[1], 1, backward=True)
    alone = nnet3.NnetComputer(programs[1].copy(), nnet, others)
    assert all(map(torch.equal, found, results(alone, requests[1], 1, backward=True)))
    parameters = [
        [value for c in each.components.values() for value in c.parameters().values()]
        for each in (computer._nnets[1], others)
        if each is not None
    ]
    assert all(map(torch.equal, *parameters))


@pytest.mark.parametrize(
    ("config", "owner_and_name"), [(TDNN, (torch.Tensor, "as_strided_")), (POOLING, (Constants, "load"))]
)
def test_after_a_change_that_was_interrupted(
    monkeypatch: pytest.MonkeyPatch, config: str, owner_and_name: tuple[type, str]
) -> None:
    """Views and tables of which some have moved already are not taken for those of the new program."""
    nnet, cache = nnet3.Nnet.from_config(config, seed=1), nnet3.ComputationCache()
    requests = [request_for(nnet, frames, 2) for frames in (60, 75, 90, 81, 66)]
    programs = [cache.compile(nnet, request) for request in requests]
    for program in programs:
        plan_of(program, "float32")
    alone = results(nnet3.NnetComputer(programs[4].copy(), nnet), requests[4], 1, backward=False)
    function, interrupted = getattr(*owner_and_name), 0
    for last in range(1, 12, 2):
        computer, calls = nnet3.NnetComputer(programs[3], nnet), itertools.count(1)
        results(computer, requests[3], 1, backward=False)

        def call(*args: Any, calls: Iterator[int] = calls, last: int = last) -> Any:
            if next(calls) == last:
                raise KeyboardInterrupt
            return function(*args)

        with monkeypatch.context() as patch, contextlib.suppress(KeyboardInterrupt):
            patch.setattr(*owner_and_name, call)
            interrupted += 1
            computer.change(programs[4])
            results(computer, requests[4], 1, backward=False)
            interrupted -= 1
        computer.change(programs[4])
        assert all(map(torch.equal, results(computer, requests[4], 1, backward=False), alone))
    assert interrupted > 0


def test_views_that_begin_to_move_are_bound_anew() -> None:
    """A view that lies still is bound once for all iterations of a loop; one that moves is not."""
    nnet = nnet3.Nnet.from_config(TDNN, seed=1)
    plan = plan_of(CACHE.compile(nnet, request_for(nnet, 60)), "float32")
    linker = link(plan, Kernels(nnet.components), Arena(plan.num_bytes, torch.device("cpu"))).linker
    views = plan.views.copy()
    views[:, -2] = 1
    assert not linker.move(replace(plan, views=views), linker.constants)
    assert linker.plan is plan
    assert linker.move(replace(plan, views=plan.views.copy()), linker.constants)


def test_what_does_not_fit_changes_nothing() -> None:
    nnet = nnet3.Nnet.from_config(TDNN, seed=1)
    request = request_for(nnet, 30)
    computer = nnet3.NnetComputer(CACHE.compile(nnet, request), nnet)
    before = results(computer, request, 1, backward=False)
    other = nnet3.Nnet.from_config(BLSTM)
    for owner, train, message in ((other, False, "the network is not what the"), (nnet, True, "no network to update")):
        program = CACHE.compile(owner, request_for(owner, 30, train=train))
        with pytest.raises(ExecutionError, match=message):
            computer.change(program)
    assert all(map(torch.equal, results(computer, request, 1, backward=False), before))
