"""Classes of equal sequences: the numbers are those of sequences told apart, and of each sequence alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import nnet3
from nnet3.base.index import NO_TIME, N
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.lowering.build_graph import build_graph
from nnet3.engine.lowering.generate import generate
from nnet3.engine.lowering.lower import lower
from nnet3.engine.lowering.scheduler import schedule
from nnet3.model.requests import build_graph as network_graph, generate as network_program, schedule as network_schedule
from tests.effort import EFFORT
from tests.lowering.random_toy_graphs import random_toy_case
from tests.lowering.toy_checks import assert_close, check_case, executed
from tests.lowering.toy_loops import WIDTH, LoopCase, windows
from tests.lowering.toy_operations import Window
from tests.random_networks import computable_request, random_network


def test_nothing_changes_where_all_are_apart() -> None:
    case = windows()
    assert case.request is not None
    graph = build_graph(case.graph, case.request).told_apart()
    assert graph.told_apart() is graph


def test_cindexes_stay_in_order() -> None:
    checked = 0
    for seed in range(80):
        case = random_toy_case(seed)
        assert case.request is not None
        graph = build_graph(case.graph, case.request)
        apart = graph.told_apart()
        checked += graph.multiplicity > 1
        keys = np.column_stack([apart.node, apart.indexes[:, 1], apart.indexes[:, 2], apart.indexes[:, N]])
        assert np.array_equal(keys, np.unique(keys, axis=0))
        counts = np.where(graph.indexes[:, 1] == NO_TIME, 1, graph.multiplicity)
        assert apart.num_cindexes == counts.sum()
        assert len(apart.dependencies[1]) >= len(graph.dependencies[1])
        for node, slots in enumerate(apart.slots):
            own = apart.indexes[apart.first[node] : apart.first[node + 1]]
            for column in slots.T:
                used = apart.indexes[column[column >= 0]]
                same = (used[:, N] == own[column >= 0, N]) | (used[:, 1] == NO_TIME)
                assert same.all(), "a sequence uses its own rows"
    assert checked > 10


@pytest.mark.parametrize("block", range(2))
def test_toy_graphs_told_apart_are_those_built_apart(block: int) -> None:
    for seed in range(20 * EFFORT * block, 20 * EFFORT * (block + 1)):
        case = random_toy_case(seed)
        assert case.request is not None
        graph = build_graph(case.graph, case.request)
        if graph.multiplicity > 1:
            apart = generate(case.graph, case.request, schedule(case.graph, graph.told_apart()))
            together = lower(case.graph, case.request)
            assert_close(executed(case, together), executed(case, apart), repr(case))


def test_a_kernel_that_parts_sequences() -> None:
    loop = LoopCase()
    weight = loop.random(2 * WIDTH, WIDTH)
    case = loop.ask(loop.graph.window(loop.input, Window("window", True, weight, False, [-1, 0]), WIDTH))
    assert case.request is not None
    case.graph.order = "sequences"
    check_case(case)
    graph = build_graph(case.graph, case.request)
    assert graph.multiplicity == 3
    assert schedule(case.graph, graph).graph.multiplicity == 1
    case.graph.order = "as it is"
    assert schedule(case.graph, graph).graph.multiplicity == 3


# ---- networks ----


def several(request: nnet3.ComputationRequest, rng: np.random.Generator) -> nnet3.ComputationRequest:
    """The first sequence of a request three times, under other numbers, its rows in any order."""

    def rows(io: nnet3.IoSpecification) -> nnet3.IoSpecification:
        own = io.indexes[io.indexes[:, N] == io.indexes[:, N].min()]
        copies = np.concatenate([np.column_stack([np.full(len(own), n), own[:, 1:]]) for n in (7, 2, 5)])
        return nnet3.IoSpecification(io.name, rng.permutation(copies), io.has_deriv)

    return replace(request, inputs=[rows(io) for io in request.inputs], outputs=[rows(io) for io in request.outputs])


def results(nnet: nnet3.Nnet, request: nnet3.ComputationRequest, program: NnetComputation) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    gradient = nnet.gradient_copy() if request.need_model_derivative else None
    computer = nnet3.NnetComputer(program, nnet, gradient, dtype=torch.float64)
    for io in request.inputs:
        computer.accept_input(io.name, rng.standard_normal((len(io.indexes), nnet.node_dim(io.name))))
    computer.run()
    found = {io.name: computer.get_output(io.name).numpy().copy() for io in request.outputs}
    if request.needs_backward:
        for io in request.outputs:
            if io.has_deriv:
                computer.accept_input(io.name, rng.standard_normal(found[io.name].shape))
        computer.run()
    for io in request.inputs:
        if io.has_deriv:
            found[f"deriv of {io.name}"] = computer.get_output(io.name).numpy().copy()
    for name, component in gradient.components.items() if gradient else ():
        found |= {f"{name} {key}": tensor.numpy() for key, tensor in component.parameters().items()}
    return found


@pytest.mark.parametrize("block", range(EFFORT))
def test_networks_told_apart_compute_the_same(block: int) -> None:
    compared = 0
    for seed in range(5000 + 15 * block, 5015 + 15 * block):
        random = random_network(seed)
        nnet = random.nnet().to(dtype=torch.float64)
        request = computable_request(nnet, random.request)
        if request is None or len({int(io.indexes[:, N].min()) for io in (*request.inputs, *request.outputs)}) > 1:
            continue
        request = several(request, np.random.default_rng(seed))
        graph = network_graph(nnet, request)
        assert graph.multiplicity == 3
        programs = [
            network_program(nnet, request, network_schedule(nnet, each)) for each in (graph, graph.told_apart())
        ]
        together, apart = (results(nnet, request, program) for program in programs)
        for name, value in apart.items():
            assert np.allclose(together[name], value, rtol=1e-9, atol=1e-11), f"{name} in {random}"
        compared += 1
    assert compared > 5
