"""Steps of random networks: rules (a), (b) and (c), and everything after what it needs; Python's work is per step."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from nnet3.compiler.growing import GrowingArray
from nnet3.compiler.organize import Schedule, schedule

import nnet3
from call_count import count_calls
from nnet3.compiler.compile import build_graph
from nnet3.nnet.nodes import ComponentNode, DimRangeNode
from nnet3.schedule import NO_ITEM, StepKind
from random_networks import computable_request, random_network


def check_requested_steps(request: nnet3.ComputationRequest, plan: Schedule) -> None:
    """Rule (a): each input and output is one step, its rows in the request's order."""
    names = plan.graph.node_names
    for kind, ios in ((StepKind.INPUT, request.inputs), (StepKind.OUTPUT, request.outputs)):
        found = [(names[step.node], table) for step, table in zip(plan.steps, plan.indexes, strict=True)
                 if step.kind == kind]  # fmt: skip
        assert [name for name, _ in found] == [io.name for io in ios]
        for (_, table), io in zip(found, ios, strict=True):
            assert np.array_equal(table, io.indexes)


def check_component_steps(nnet: nnet3.Nnet, plan: Schedule) -> None:
    """Rule (b): a component's step follows that of its input; for a simple component with the same indexes."""
    for place, step in enumerate(plan.steps):
        node = nnet.nodes[step.node]
        if step.kind != StepKind.COMPUTING:
            continue
        assert isinstance(node, ComponentNode)
        before = plan.steps[place - 1]
        assert (before.kind, before.node, step.source) == (StepKind.COMPUTING_INPUT, step.node - 1, place - 1)
        component = nnet.component_of(node)
        if component.identity_indexes:
            assert np.array_equal(plan.indexes[place - 1], plan.indexes[place])
        real = step.items[step.items != NO_ITEM]
        used = plan.graph.slots[step.node][real - plan.graph.first[step.node]]
        assert set(before.items[before.items != NO_ITEM].tolist()) == set(used[used >= 0].tolist())


def check_views(nnet: nnet3.Nnet, plan: Schedule) -> None:
    """Rule (c): a dim-range step has the rows of the step it looks at, which is of its source node."""
    for place, step in enumerate(plan.steps):
        node = nnet.nodes[step.node]
        if step.kind != StepKind.VIEW:
            assert not isinstance(node, DimRangeNode)
            continue
        assert isinstance(node, DimRangeNode)
        source = plan.steps[step.source]
        assert nnet.nodes[source.node].name == node.source
        assert step.source < place
        real = step.items != NO_ITEM
        assert np.array_equal(plan.indexes[place][real], plan.indexes[step.source][real])
        assert len(step.items) == len(source.items)


def check_order(plan: Schedule) -> None:
    """All that an item uses is in earlier steps."""
    done = np.zeros(plan.graph.num_cindexes, bool)
    indptr, ids = plan.graph.dependencies
    for step in plan.steps:
        for item in step.items[step.items != NO_ITEM].tolist():
            assert plan.graph.is_input[item] or done[ids[indptr[item] : indptr[item + 1]]].all()
        done[step.items[step.items != NO_ITEM]] = True
    assert done.all()


@pytest.mark.parametrize("block", range(5))
def test_the_rules_hold_on_random_networks(block: int) -> None:
    for seed in range(3000 + 12 * block, 3012 + 12 * block):
        case = random_network(seed)
        nnet = case.nnet()
        request = computable_request(nnet, case.request)
        if request is None:
            continue
        plan = schedule(nnet, request, build_graph(nnet, request))
        check_requested_steps(request, plan)
        check_component_steps(nnet, plan)
        check_views(nnet, plan)
        check_order(plan)


def test_a_recurrence_takes_turns_and_the_layer_above_it_is_one_step() -> None:
    nnet = nnet3.Nnet.from_config(
        "input-node name=input dim=2\ncomponent name=noop type=NoOpComponent dim=2\n"
        "component-node name=below component=noop input=input\n"
        "component-node name=loop component=noop input=Sum(below, IfDefined(Offset(loop, -3)))\n"
        "component-node name=above component=noop input=loop\noutput-node name=output input=above"
    )
    rows = [(n, t) for n in range(4) for t in range(9)]
    request = nnet3.ComputationRequest([nnet3.IoSpecification("input", rows)], [nnet3.IoSpecification("output", rows)])
    plan = schedule(nnet, request, build_graph(nnet, request))
    steps = [(plan.graph.node_names[step.node], len(step.items)) for step in plan.steps]
    assert steps == [
        ("input", 36),
        *[("below_input", 36), ("below", 36)],
        *[("loop_input", 12), ("loop", 12)] * 3,  # a delay of 3 frames: three time steps at once
        *[("above_input", 36), ("above", 36)],
        ("output", 36),
    ]


# ---- the number of calls ----

TDNN = """
input-node name=input dim=4
input-node name=ivector dim=2
component name=a type=NaturalGradientAffineComponent input-dim=14 output-dim=6
component-node name=a component=a input=Append(Offset(input,-1), input, Offset(input,1), ReplaceIndex(ivector, t, 0))
component name=relu type=RectifiedLinearComponent dim=6
component-node name=relu component=relu input=a
component name=bn type=BatchNormComponent dim=6
component-node name=bn component=bn input=relu
component name=tdnn type=TdnnComponent input-dim=6 output-dim=6 time-offsets=-3,0,3
component-node name=tdnn component=tdnn input=bn
component name=stats type=StatisticsExtractionComponent input-dim=6 output-period=2
component-node name=stats component=stats input=tdnn
component name=pool type=StatisticsPoolingComponent input-dim=13 input-period=2 left-context=4 right-context=4
component-node name=pool component=pool input=stats
output-node name=output input=Append(Round(pool, 2), Sum(tdnn, Scale(0.5, bn)))
"""
LSTM = """
input-node name=input dim=4
component name=W type=NaturalGradientAffineComponent input-dim=7 output-dim=12
component-node name=gates component=W input=Append(input, IfDefined(Offset(m, -1)))
component name=lstm type=LstmNonlinearityComponent cell-dim=3
component-node name=lstm component=lstm input=Append(gates, IfDefined(Offset(c, -1)))
dim-range-node name=c input-node=lstm dim-offset=0 dim=3
dim-range-node name=m input-node=lstm dim-offset=3 dim=3
output-node name=output input=m
"""
CLOCKWORK = """
input-node name=input dim=3
component name=W type=AffineComponent input-dim=6 output-dim=3
component name=tanh type=TanhComponent dim=3
component-node name=a component=W input=Append(input, IfDefined(Switch(Offset(h, -1), Offset(h, -2))))
component-node name=h component=tanh input=a
component-node name=slow component=tanh input=Sum(Round(h, 3), IfDefined(Offset(Round(slow, 3), -3)))
output-node name=output input=Failover(Offset(slow, 3), h)
"""


def compile_for(config: str, num_sequences: int, backward: bool) -> None:
    nnet = nnet3.Nnet.from_config(config)
    sequences, times = np.arange(num_sequences), np.arange(-12, 18)
    rows = np.stack(np.meshgrid(sequences, times, [0], indexing="ij"), axis=-1).reshape(-1, 3)
    inputs = [nnet3.IoSpecification(name, rows, has_deriv=backward) for name in nnet.input_names]
    wanted = rows[(rows[:, 1] >= 0) & (rows[:, 1] < 6)]
    request = nnet3.ComputationRequest(inputs, [nnet3.IoSpecification("output", wanted, backward)], backward)
    assert nnet3.compile(nnet, request).commands


@pytest.mark.parametrize("backward", [False, True], ids=["forward", "backward"])
@pytest.mark.parametrize("config", [TDNN, LSTM, CLOCKWORK], ids=["tdnn", "lstm", "clockwork"])
def test_calls_do_not_depend_on_the_number_of_sequences(
    config: str, backward: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = GrowingArray.__init__

    def make_roomy(self: GrowingArray, dtype: type, width: int | None = None, capacity: int = 0) -> None:
        make(self, dtype, width, 2**17)  # so that none has to grow, which takes a call or two each time

    monkeypatch.setattr(GrowingArray, "__init__", make_roomy)
    compile_for(config, 2, backward)  # caches fill
    gc.disable()  # test tools hang calls of their own on collections
    try:
        assert count_calls(compile_for, config, 2, backward) == count_calls(compile_for, config, 200, backward)
    finally:
        gc.enable()
