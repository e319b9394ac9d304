"""Schedules of random graphs: every row once, after what it needs; Python's work is per step."""

from __future__ import annotations

import numpy as np
import pytest

import nnet3
from nnet3.engine.driver import compile_task
from nnet3.engine.driver.proving import PROVE
from nnet3.engine.lowering.build_graph import build_graph
from nnet3.engine.lowering.graph import NO_ITEM
from nnet3.engine.lowering.schedule import Schedule
from nnet3.engine.lowering.scheduler import schedule
from nnet3.engine.lowering.source import NodeKind, Use
from nnet3.model.requests.compile import build_graph as network_graph, schedule as network_schedule
from tests.call_count import count_calls
from tests.effort import at_night, third
from tests.lowering.networks import CLOCKWORK, LSTM, TDNN, request_for
from tests.lowering.random_toy_graphs import random_toy_case
from tests.random_networks import computable_request, random_network


def check_rows(plan: Schedule) -> None:
    """Each cindex has one row of its node's matrix, given rows first; steps are the others, one after another."""
    graph = plan.graph
    private = {operand.node for node in plan.nodes for operand in node.operands if operand.use is Use.INDEXED}
    for number, node in enumerate(plan.nodes):
        items = plan.items[number]
        real = items[items != NO_ITEM]
        end = plan.num_given[number]
        for position in plan.steps_of_node[number]:
            step = plan.steps[position]
            assert (step.first, step.num_rows > 0) == (end, True)
            end += step.num_rows
        assert end == len(items) or node.num_rows is not None
        if node.kind is NodeKind.VIEW:
            assert len(items) == 0
        if number in plan.detour_slots or node.kind is NodeKind.VIEW:
            continue
        own = np.arange(graph.first[number], graph.first[number + 1])
        assert set(real.tolist()) == set(own.tolist())
        if number not in private:  # such a node may have a row in several steps, and nobody else looks at it
            assert np.array_equal(items[plan.row_of_item[own]], own)
        assert graph.is_input[items[: plan.num_given[number]]].all()
        if node.num_rows is None:
            assert not graph.is_input[items[plan.num_given[number] :][items[plan.num_given[number] :] != NO_ITEM]].any()


def check_order(plan: Schedule) -> None:
    """All that a step uses is given or in earlier steps, views being where what they look at is."""
    graph = plan.graph
    done = graph.is_input.copy()
    indptr, ids = graph.dependencies
    views = [number for number, node in enumerate(plan.nodes) if node.kind is NodeKind.VIEW]

    def ready(item: int) -> bool:
        while graph.node[item] in views:
            item = int(graph.slots[graph.node[item]][item - graph.first[graph.node[item]], 0])
        return bool(done[item])

    for step in plan.steps:
        items = plan.items[step.node][step.first : step.first + step.num_rows]
        items = items[items != NO_ITEM]
        if step.node in plan.detour_slots:
            slots = plan.detour_slots[step.node][step.first : step.first + step.num_rows]
            assert all(ready(int(item)) for item in slots[slots >= 0])
            continue
        for item in items.tolist():
            assert graph.is_input[item] or all(ready(used) for used in ids[indptr[item] : indptr[item + 1]].tolist())
        done[items] = True
    assert all(ready(item) for item in range(graph.num_cindexes))


def check_operands(plan: Schedule) -> None:
    """A step of a kernel reads consecutive rows of operands by row, and an indexed one's just before it."""
    for position, step in enumerate(plan.steps):
        node = plan.nodes[step.node]
        for number, operand in enumerate(node.operands):
            if operand.use is Use.INDEXED:
                before = plan.steps[position - 1]
                assert before.node == operand.node
                read = plan.items[before.node][before.first : before.first + before.num_rows]
                used = plan.slots_of_rows(step.node)[step.first : step.first + step.num_rows]
                assert set(read[read != NO_ITEM].tolist()) == set(used[used >= 0].tolist())
            elif operand.use is Use.ROW and plan.nodes[operand.node].num_rows is None:
                rows = plan.operand_rows(step.node, number)[step.first : step.first + step.num_rows]
                assert (np.diff(rows) == 1).all()


def check(plan: Schedule) -> None:
    check_rows(plan)
    check_order(plan)
    check_operands(plan)
    assert [start for start, _, _ in plan.epoch_steps] == [0, *(end for _, end, _ in plan.epoch_steps)][:-1]
    assert len(str(plan).splitlines()) == len(plan.steps) + 1


@pytest.mark.parametrize("block", range(4))
def test_the_rules_hold_on_random_networks(block: int) -> None:
    for seed in range(3000 + 12 * block, 3000 + 12 * block + third(12)):
        case = random_network(seed)
        nnet = case.nnet()
        request = computable_request(nnet, case.request)
        if request is not None:
            check(network_schedule(nnet, network_graph(nnet, request)))


@pytest.mark.parametrize("block", [0, *at_night(1, 2, 3)])
def test_the_rules_hold_on_toy_graphs(block: int) -> None:
    for seed in range(50 * block, 50 * block + 50):
        case = random_toy_case(seed)
        assert case.request is not None
        check(schedule(case.graph, build_graph(case.graph, case.request)))


LOOP = """
input-node name=input dim=2
component name=noop type=NoOpComponent dim=2
component-node name=below component=noop input=input
component-node name=loop component=noop input=Sum(below, IfDefined(Offset(loop, -3)))
component-node name=above component=noop input=loop
output-node name=output input=above
"""


def test_a_recurrence_takes_turns_and_the_layer_above_it_is_one_step() -> None:
    nnet = nnet3.Nnet.from_config(LOOP)
    rows = [(n, t) for n in range(4) for t in range(9)]
    request = nnet3.ComputationRequest([nnet3.IoSpecification("input", rows)], [nnet3.IoSpecification("output", rows)])
    plan = network_schedule(nnet, network_graph(nnet, request))
    steps = [(plan.nodes[step.node].name, len(plan.step_indexes(step))) for step in plan.steps]
    assert steps == [
        *[("below_input", 36), ("below", 36)],
        *[("loop_input", 12), ("loop", 12)] * 3,  # a delay of 3 frames: three time steps at once
        *[("above_input", 36), ("above", 36)],
        ("output", 36),
    ]


# ---- how much work it is ----

NETWORKS = pytest.mark.parametrize("config", [TDNN, LSTM, CLOCKWORK], ids=["tdnn", "lstm", "clockwork"])


def compile_for(config: str, num_sequences: int, backward: bool, odd: bool) -> None:
    nnet = nnet3.Nnet.from_config(config)
    options = nnet3.CompileOptions(disabled_passes=frozenset({"compress_signs"}))  # which looks at large matrices only
    assert compile_task(request_for(nnet, num_sequences, backward, odd).task(nnet, options)).commands


@pytest.mark.parametrize("odd", [False, True], ids=["equal", "unequal"])
@pytest.mark.parametrize("backward", [False, True], ids=["forward", "backward"])
@NETWORKS
def test_calls_do_not_depend_on_the_number_of_sequences(
    config: str, backward: bool, odd: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PROVE, "forms")
    few = 4  # of 2 or 3 sequences, matrices of different nodes have equally many rows by chance
    calls = [count_calls(compile_for, config, number, backward, odd) for number in (few, 200)]
    if odd:  # sorting sequences into classes, and levels of each, take some
        assert calls[1] - calls[0] <= 200 * (200 - few)
    else:
        assert calls[0] == calls[1]


@NETWORKS
def test_equal_sequences_are_compiled_once(config: str) -> None:
    nnet = nnet3.Nnet.from_config(config)
    graphs = [network_graph(nnet, request_for(nnet, number, False)) for number in (1, 200)]
    assert graphs[0].num_cindexes == graphs[1].num_cindexes
    assert [graph.multiplicity for graph in graphs] == [1, 200]
