"""Forwarding descriptors: the row that each refers to, its period, and names that change."""

from __future__ import annotations

import contextlib

import numpy as np
import numpy.typing as npt
import pytest

from nnet3.errors import NetworkError
from nnet3.model.components.identity import NoOpComponent
from nnet3.model.nnet import Nnet
from nnet3.model.structure import context
from nnet3.model.structure.context import context_by_intervals, context_by_trials
from nnet3.model.structure.forwarding import (
    ForwardingDescriptor,
    Interval,
    NodeReference,
    NotIntervalsError,
    Offset,
    ReplaceIndex,
    Round,
    Switch,
)
from nnet3.model.structure.node_rules import NodeRules
from tests.effort import draws
from tests.random_networks import random_network

A, B = NodeReference("a"), NodeReference("b", 2.0)
NUMBER = {"a": 0, "b": 1}


def _refers(descriptor: ForwardingDescriptor, *indexes: tuple[int, int, int]) -> list[tuple[int, int, int, int]]:
    nodes, mapped = descriptor.map_to_input(np.array(indexes, np.int32), NUMBER)
    assert mapped.dtype == np.int32
    return [(node, *index) for node, index in zip(nodes.tolist(), mapped.tolist(), strict=True)]


@pytest.mark.parametrize(
    ("descriptor", "text", "modulus", "refers"),
    [
        (A, "a", 1, (0, 3, -7, 5)),
        (B, "Scale(2, b)", 1, (1, 3, -7, 5)),
        (Offset(A, 2), "Offset(a, 2)", 1, (0, 3, -5, 5)),
        (Offset(A, -2, 1), "Offset(a, -2, 1)", 1, (0, 3, -9, 6)),
        (Round(A, 4), "Round(a, 4)", 4, (0, 3, -8, 5)),
        (ReplaceIndex(A, "t", 9), "ReplaceIndex(a, t, 9)", 1, (0, 3, 9, 5)),
        (ReplaceIndex(A, "x", 9), "ReplaceIndex(a, x, 9)", 1, (0, 3, -7, 9)),
        (Switch((A, B)), "Switch(a, Scale(2, b))", 2, (1, 3, -7, 5)),
        (Switch((A, Offset(B, 1), A)), "Switch(a, Offset(Scale(2, b), 1), a)", 3, (0, 3, -7, 5)),
        (Switch((Round(A, 4), A, A)), "Switch(Round(a, 4), a, a)", 12, (0, 3, -7, 5)),
    ],
)
def test_each_kind_refers_to_its_index(
    descriptor: ForwardingDescriptor, text: str, modulus: int, refers: tuple[int, ...]
) -> None:
    assert (str(descriptor), descriptor.modulus) == (text, modulus)
    assert _refers(descriptor, (3, -7, 5)) == [refers]


def test_the_outer_one_is_applied_first() -> None:
    assert _refers(Offset(Round(A, 10), -1), (0, 10, 0)) == [(0, 0, 0, 0)]
    assert _refers(Round(Offset(A, -1), 10), (0, 19, 0)) == [(0, 0, 9, 0)]


def test_a_switch_turns_by_the_time_also_below_zero() -> None:
    times = [(0, t, 0) for t in range(-3, 3)]
    assert [node for node, *_ in _refers(Switch((A, B)), *times)] == [1, 0, 1, 0, 1, 0]


def test_nodes_come_in_the_order_in_which_they_are_written() -> None:
    descriptor = Switch((Offset(A, 1), Round(B, 2), ReplaceIndex(A, "t", 0)))
    assert [reference.node for reference in descriptor.nodes()] == ["a", "b", "a"]


def test_renamed_nodes_keep_all_else() -> None:
    descriptor = Switch((Offset(A, 1, 2), Round(B, 2), ReplaceIndex(A, "t", 0)))
    renamed = descriptor.rename({"a": "z"})
    assert str(renamed) == str(descriptor).replace("a,", "z,")
    assert renamed.rename({"z": "a"}) == descriptor


def _alike(nnet: Nnet, *, intervals: bool) -> tuple[int, int]:
    """The context found by trial; that found by intervals must be the same, if it is to be found so at all."""
    tried = context_by_trials(nnet.parts)
    try:
        assert context_by_intervals(nnet.parts) == tried
    except NotIntervalsError:
        assert not intervals
    return tried


@pytest.mark.parametrize("offset", [-700, 5000, -123456])
def test_a_long_context(offset: int) -> None:
    text = "input-node name=input dim=1\noutput-node name=output input=Append({}, Offset(input, {}))"
    plain = Nnet.from_config(text.format("input", offset))
    assert _alike(plain, intervals=True) == (max(0, -offset), max(0, offset))
    assert (plain.left_context, plain.right_context) == (max(0, -offset), max(0, offset))
    by_trial = Nnet.from_config(text.format("Switch(input, input)", offset))
    assert (by_trial.left_context, by_trial.right_context) == (plain.left_context, plain.right_context)


@pytest.mark.parametrize(
    "descriptor",
    [
        "Failover(Sum(input, Offset(input, 3)), input)",
        "Round(Offset(input, -3), 7)",
        "Offset(Round(input, 7), 5)",
        "Sum(Round(input, 3), Round(Offset(input, 2), 4))",
        "Round(input, 50)",
        "Failover(Offset(input, 3), input)",
        "Failover(Offset(input, -50), Offset(input, 50))",
        "Failover(input, Sum(input, Offset(input, 3)))",
        "Failover(ReplaceIndex(input, t, -1), input)",
        "Append(Offset(input, 4), ReplaceIndex(ivector, t, 0))",
        "Append(Offset(input, -4), Round(ivector, 10))",
        "Sum(IfDefined(Offset(input, -4)), Offset(input, 1))",
        "Switch(input, Offset(input, 2), Offset(input, -5))",
        "Switch(Offset(input, 2))",
        "ReplaceIndex(Offset(input, 2), x, 0)",
    ],
)
def test_intervals_give_what_trials_give(descriptor: str) -> None:
    inputs = "input-node name=input dim=1\ninput-node name=ivector dim=1\n"
    nnet = Nnet.from_config(f"{inputs}output-node name=output input={descriptor}")
    _alike(nnet, intervals=not descriptor.startswith(("Failover(Offset", "Switch(input")))


@pytest.mark.parametrize("seed", range(draws(20)))
def test_intervals_give_what_trials_give_on_random_networks(seed: int) -> None:
    nnet = random_network(seed).nnet()
    if nnet.is_simple and nnet.modulus < 40:
        with contextlib.suppress(NetworkError):
            _alike(nnet, intervals=False)


@pytest.mark.parametrize("cells", [1, 100, 10**7])
def test_a_large_network_takes_bounded_memory(cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is a number for each node and each shift of the window: not of all shifts at once, where that is many."""
    inputs = ", ".join(f"Round(Offset(input, {k}), {period})" for k, period in ((1, 4), (-5, 7), (3, 9)))
    nnet = Nnet.from_config(f"input-node name=input dim=1\noutput-node name=output input=Sum({inputs})")
    sizes: list[int] = []

    available_times = context._available_times

    def counting(
        rules: NodeRules, order: list[int], stuck: set[int], shifts: npt.NDArray[np.int64]
    ) -> dict[int, Interval]:
        sizes.append(len(order) * len(shifts))
        return available_times(rules, order, stuck, shifts)

    wanted = context_by_trials(nnet.parts)
    monkeypatch.setattr(context, "_available_times", counting)
    monkeypatch.setattr(context, "_MOST_CELLS", cells)
    assert context_by_intervals(nnet.parts) == wanted
    assert sum(sizes) == 2 * (4 * 7 * 9 + 1)
    assert max(sizes) <= max(cells, 2)
    assert len(sizes) == {1: 253, 100: 6, 10**7: 1}[cells]


class LooksOn(NoOpComponent):
    """Needs the next frame, too, at the end of each so many frames."""

    needs_all_inputs = True

    def __init__(self, period: int, place: int) -> None:
        super().__init__(1)
        self.identity_indexes = False
        self.period, self.place = period, place

    def wanted_inputs(self, outputs: np.ndarray) -> np.ndarray:
        next_one = outputs.copy()
        next_one[:, 1] += outputs[:, 1] % self.period == self.place
        return np.stack([outputs, next_one], axis=1)


@pytest.mark.parametrize(("period", "place"), [(2, 1), (3, 2), (4, 3), (5, 4), (7, 4), (8, 7), (64, 0), (1001, 0)])
def test_what_a_component_needs_may_depend_on_the_time(period: int, place: int) -> None:
    text = "input-node name=input dim=1\ncomponent name=k type=NoOpComponent dim=1\n"
    text += "component-node name=k component=k input=input\noutput-node name=output input=k"
    nnet = Nnet.from_config(text)
    nnet.components["k"] = LooksOn(period, place)
    with pytest.raises(NotIntervalsError):
        context_by_intervals(nnet.parts)
    nnet.components["k"] = LooksOn(1, 0)
    assert context_by_intervals(nnet.parts) == (0, 1)


def test_intervals_are_what_recipes_need() -> None:
    """Convolutions, recurrences and subsampled layers need no trials."""
    text = """
        input-node name=input dim=4
        component name=tdnn type=TdnnComponent input-dim=4 output-dim=4 time-offsets=-3,0,2
        component name=affine type=AffineComponent input-dim=8 output-dim=4
        component-node name=tdnn component=tdnn input=Round(input, 3)
        component-node name=rnn component=affine input=Append(tdnn, IfDefined(Offset(rnn, -3)))
        component-node name=back component=affine input=Append(rnn, IfDefined(Offset(back, 3)))
        output-node name=output input=Offset(back, 1)
    """
    assert _alike(Nnet.from_config(text), intervals=True) == (4, 3)
