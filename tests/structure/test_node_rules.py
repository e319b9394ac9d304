"""Contexts and recurrences that cannot start, as they follow from the rules of nodes, against what graphs hold."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st

from nnet3.base.index import T
from nnet3.engine.lowering.build_graph import computable_outputs
from nnet3.engine.lowering.source import LoweringRequest, RequestedRows
from nnet3.errors import ConfigError, NetworkError, RequestError
from nnet3.model.nnet import Nnet
from nnet3.model.structure import context as context_trials
from nnet3.model.structure.context import context_by_intervals
from nnet3.model.structure.cycles import never_computable
from nnet3.model.structure.forwarding import ALWAYS, NotIntervalsError
from nnet3.model.structure.node_rules import NodeRules
from nnet3.model.structure.normalize import parse_descriptor
from nnet3.model.structure.parts import NetworkParts
from tests.descriptors import NODES, descriptor_texts
from tests.effort import draws


def _sum(draw: st.DrawFn, depth: int, operators: tuple[str, ...]) -> str:
    operator = draw(st.sampled_from(operators)) if depth else "Offset"
    if operator == "Offset":
        return f"Offset({draw(st.sampled_from(['input', 'input', 'a', 'b']))}, {draw(st.integers(-3, 3))})"
    first = _sum(draw, depth - 1, operators)
    if operator == "IfDefined":
        return f"IfDefined({first})"
    if operator == "Round":
        return f"Round({first}, {draw(st.integers(1, 4))})"
    return f"{operator}({first}, {_sum(draw, depth - 1, operators)})"


@st.composite
def small_networks(draw: st.DrawFn, *more: str) -> NetworkParts:
    """Two component nodes, a and b, and an output, which take the input and each other in all ways."""
    a, b, output = (_sum(draw, 2, ("Sum", "Failover", "IfDefined", "Offset", "Round", *more)) for _ in range(3))
    text = f"""
        input-node name=input dim=1
        component name=k type=NoOpComponent dim=1
        component-node name=a component=k input={a}
        component-node name=b component=k input={b}
        output-node name=output input={output}
    """
    try:
        return Nnet.from_config(text).parts
    except ConfigError:  # a cycle that never moves, or a Switch of sums
        assume(False)
        raise


@settings(max_examples=draws(15))
@given(small_networks())
def test_intervals_give_what_trials_give(parts: NetworkParts) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(context_trials, "_MOST_CELLS", 0)
        try:
            found = context_by_intervals(parts)
        except NotIntervalsError:
            return
        if found is None:
            with pytest.raises(NetworkError):
                context_trials.context_by_trials(parts)
        else:
            assert context_trials.context_by_trials(parts) == found


def _ever_computable(parts: NetworkParts) -> set[int]:
    """The nodes with a row that can be computed from far more input than offsets ask for."""
    table = np.zeros((400, 3), np.int32)
    table[:, T] = np.arange(-200, 200)
    number = parts.node_number["input"]
    wanted = [RequestedRows(k, node.name, table[180:220]) for k, node in enumerate(parts.nodes) if k != number]
    request = LoweringRequest([RequestedRows(number, "input", table)], wanted)
    found = zip(wanted, computable_outputs(NodeRules(parts), request), strict=True)
    return {number, *(rows.node for rows, computable in found if computable.any())}


@given(small_networks(), small_networks("Switch"))
def test_what_can_never_be_computed_is_in_no_graph(plain: NetworkParts, switching: NetworkParts) -> None:
    try:
        assert never_computable(plain) == set(range(len(plain.nodes))) - _ever_computable(plain)
        assert not never_computable(switching) & _ever_computable(switching)
    except RequestError:  # a recurrence that looks on without end
        assume(False)


@given(descriptor_texts(), st.integers(0, 2**32 - 1))
def test_availability_of_times_is_computability_at_each_time(text: str, seed: int) -> None:
    """What is available until some time is computable until then, and not after."""
    descriptor = parse_descriptor(text)
    last = np.random.default_rng(seed).integers(0, 6, (20, len(descriptor.slots())))
    until = descriptor.availability(last)
    for time in range(7):
        assert ((until >= time) == descriptor.is_computable(last >= time)[0]).all()
    assert set(until.tolist()) <= {*range(6), ALWAYS}


@given(descriptor_texts())
def test_slots_that_are_not_needed_do_not_matter(text: str) -> None:
    descriptor = parse_descriptor(text)
    needed = np.array([descriptor.needed], bool)
    assert descriptor.is_computable(needed)[0].all()
    assert set(NODES) >= {reference.node for forward in descriptor.needed_slots() for reference in forward.nodes()}
