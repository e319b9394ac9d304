"""Plain programs are what their graphs mean, cindex by cindex, on elements of the field: outputs, derivatives, updates.

Every small program that any test compiles is looked at (`tests.proved_lowering`). Here are those that must be among
them, larger ones, and bugs of lowering that must be noticed.
"""

from __future__ import annotations

import doctest
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch

import nnet3
from nnet3 import cn
from nnet3.engine.ir.commands import Backprop, Command, MatrixAdd, MatrixCopy
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.lowering import gather, reading, updates
from nnet3.engine.lowering.generate import _Generator
from nnet3.engine.lowering.lower import lower
from nnet3.engine.lowering.source import GraphSource, LoweringRequest
from nnet3.errors import ProofError
from nnet3.model.nnet import load_nnet
from nnet3.model.requests import NnetSource, lowering_request
from tests import cindex_graph
from tests.cindex_proof import prove_lowered
from tests.cn.random_loops import random_loop_graph
from tests.effort import EFFORT, draws
from tests.lowering.examples import convolution, halves, loop, splice
from tests.lowering.random_toy_graphs import random_toy_case
from tests.networks.golden_network import read_request
from tests.networks.network_of_type import network_of_type, request_of_type
from tests.proved_lowering import lowering_proved
from tests.random_networks import ALL_LAYERS, computable_request, random_network
from tests.random_stacks import spliced_loop
from tests.seeds import shifted
from tests.shared_data import golden_cases
from tools.component_samples import SAMPLES

EXAMPLES = {
    "splice": splice,
    "two sequences": lambda: splice(sequences=2),
    "more is given": lambda: splice(range(-3, 6)),
    "loop": loop,
    "loop of two sequences": lambda: loop(sequences=2),
    "halves": halves,
    "convolution": convolution,
}


def prove(nnet: nnet3.Nnet, request: nnet3.ComputationRequest, **changes: Any) -> None:
    source, lowered = NnetSource(nnet), replace(lowering_request(nnet, request), **changes)
    prove_lowered(source, lowered, lower(source, lowered))


def test_the_example_of_the_oracle() -> None:
    assert doctest.testmod(cindex_graph) == (0, 4)


@pytest.mark.parametrize("times", [None, (1, 2)])
@pytest.mark.parametrize("example", EXAMPLES)
def test_examples(example: str, times: tuple[int, int] | None) -> None:
    each = EXAMPLES[example]()
    request = replace(each.request, deriv_times=times)
    prove_lowered(each.source, request, lower(each.source, request))


@pytest.mark.parametrize("name", SAMPLES)
def test_components_of_every_type(name: str) -> None:
    """Those too that look at other rows, and whose rows lie in an order of their own."""
    nnet, request = network_of_type(name), request_of_type(name)
    inputs = [] if name in ("ConstantComponent", "DropoutMaskComponent") else request.inputs
    for component in nnet.components.values():
        component.set_test_mode(False)
    request = nnet3.ComputationRequest(inputs, request.outputs, need_model_derivative=True, store_component_stats=True)
    prove(nnet, request)
    prove(nnet, request, deriv_times=(1, 3))
    prove(nnet, request, frozen=nnet.components)


FOLDERS = (golden_cases("random") + golden_cases("recipe"))[:: 3 if EFFORT == 1 else 1]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_golden_networks(folder: Path) -> None:
    prove(load_nnet(folder / "model.raw"), read_request(folder))


@pytest.mark.parametrize("make", [lambda seed: random_network(seed, layers=ALL_LAYERS), spliced_loop])
def test_random_networks(make: Callable[[int], Any]) -> None:
    for seed in range(shifted(500), shifted(500) + draws(5)):
        made = make(seed)
        request = computable_request(nnet := made.nnet(), made.request)
        if request is not None:
            prove(nnet, request)
            prove(nnet, request, frozen=random.Random(seed).sample(sorted(nnet.components), len(nnet.components) // 2))


def test_random_toy_graphs() -> None:
    for seed in range(1000, 1000 + 20 * EFFORT):
        case = random_toy_case(seed)
        assert case.request is not None
        prove_lowered(case.graph, case.request, lower(case.graph, case.request))


def test_computational_networks_with_delays_both_ways() -> None:
    with lowering_proved(most_commands=5000, each=True) as proved:
        for seed in range(shifted(0), shifted(0) + 4 * EFFORT):
            criterion, last, inputs = random_loop_graph(random.Random(seed))
            network = cn.Network(criterion, {"last": last}, dtype=torch.float64)
            network.criterion_and_gradients({node.name: inputs[node.name] for node in network.inputs})
    assert len(proved) >= 4 * EFFORT


# ---- bugs ----


def _wrong_offset(source: GraphSource, request: LoweringRequest) -> NnetComputation:
    """The rows that a slot takes lie a row late."""
    right = reading.slot_pattern

    def late(nodes: np.ndarray, rows: np.ndarray, first: np.ndarray, count: np.ndarray) -> Any:
        return right(nodes, np.where(rows > 0, rows - 1, rows), first, count)

    with mock.patch.object(reading, "slot_pattern", late):
        return lower(source, request)


def _wrong_part(source: GraphSource, request: LoweringRequest) -> NnetComputation:
    """Every part of a stack is its first one."""
    right = gather.GatherCode._columns
    with mock.patch.object(gather.GatherCode, "_columns", lambda self, whole, _, count: right(self, whole, 0, count)):
        return lower(source, request)


def _without(kind: type[Command]) -> Callable[[GraphSource, LoweringRequest], NnetComputation]:
    def lowered(source: GraphSource, request: LoweringRequest) -> NnetComputation:
        program = lower(source, request)
        place = max(place for place, command in enumerate(program.commands) if type(command) is kind)
        del program.commands[place]
        return program

    return lowered


def _adds_for_copies(source: GraphSource, request: LoweringRequest) -> NnetComputation:
    """What is written first is added to what was there before."""
    program = lower(source, request)
    for place, command in enumerate(program.commands):
        if type(command) is MatrixCopy:
            program.commands[place] = MatrixAdd(command.dest, command.source, command.scale)
    return program


def _nothing_cleared(source: GraphSource, request: LoweringRequest) -> NnetComputation:
    with mock.patch.object(_Generator, "_clear", return_value=()):
        return lower(source, request)


def _learns_of_fewer_rows(source: GraphSource, request: LoweringRequest) -> NnetComputation:
    right = updates.UpdateCode.__init__

    def begun(self: updates.UpdateCode, *arguments: Any) -> None:
        right(self, *arguments)
        self._rows = [step._replace(num_rows=max(1, step.num_rows - 1)) for step in self._rows]

    with mock.patch.object(updates.UpdateCode, "__init__", begun):
        return lower(source, request)


BUGS: list[tuple[Callable[[GraphSource, LoweringRequest], NnetComputation], str]] = [
    (_wrong_offset, "splice"),
    (_wrong_part, "splice"),
    (_without(MatrixAdd), "loop"),
    (_without(Backprop), "loop"),
    (_adds_for_copies, "loop"),
    (_nothing_cleared, "more is given"),
    (_learns_of_fewer_rows, "loop"),
]


@pytest.mark.parametrize(("bug", "example"), BUGS)
def test_bugs_of_lowering_are_noticed(
    bug: Callable[[GraphSource, LoweringRequest], NnetComputation], example: str
) -> None:
    each = EXAMPLES[example]()
    with pytest.raises(ProofError, match="the plain program"):
        prove_lowered(each.source, each.request, bug(each.source, each.request))
