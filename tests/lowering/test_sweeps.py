"""Recurrences of all kinds: sweeps find what going round and round from below finds, in far fewer rounds."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import nnet3
from nnet3.engine.lowering.build_graph import computable_outputs
from nnet3.engine.lowering.computable import Computability
from nnet3.engine.lowering.domain import Domain
from nnet3.engine.lowering.lower import lower
from nnet3.engine.lowering.needed import _NeedSweep
from nnet3.engine.lowering.slot_table import Mask
from nnet3.engine.lowering.sweeps import Sweeps, finished_sweeps
from nnet3.errors import ConfigError, RequestError
from nnet3.model.requests import lowering_request, nnet_source
from tests.effort import EFFORT, draws
from tests.hop_by_hop_builder import GraphBuilder
from tests.lowering.examples import loop
from tests.seeds import shifted

HEAD = "input-node name=input dim=1\ncomponent name=noop type=NoOpComponent dim=1\n"


class _Network:
    """Up to three nodes that look at each other: back and ahead, by turns, rounded, with or without a way to start."""

    def __init__(self, seed: int):
        self.rng = random.Random(shifted(seed))
        self.names = [f"n{number}" for number in range(self.rng.choice([1, 2, 3]))]
        lines = []
        for name in self.names:
            terms = [self._term() for _ in range(self.rng.choice([1, 1, 2]))]
            if self.rng.random() < 0.75:
                terms.append(self.rng.choice(["input", "Offset(input, 1)", "IfDefined(input)"]))
            lines.append(f"component-node name={name} component=noop input=Sum({', '.join(terms)})")
        self.text = HEAD + "\n".join([*lines, f"output-node name=output input={self.rng.choice(self.names)}"])

    def _forward(self, depth: int = 2) -> str:
        kind, name = self.rng.random(), self.rng.choice(self.names)
        if depth == 0 or kind < 0.3:
            return f"Offset({name}, {self.rng.choice([-4, -3, -2, -1, -1, -1, 1, 2])})"
        if kind < 0.7:
            return f"Offset({self._forward(depth - 1)}, {self.rng.choice([-3, -2, -1, 2])})"
        if kind < 0.85:
            return f"Switch({', '.join(self._forward(1) for _ in range(self.rng.choice([2, 2, 3])))})"
        return f"Offset(Round({name}, {self.rng.choice([2, 3])}), {self.rng.choice([-3, -2, -6])})"

    def _term(self) -> str:
        kind, forward = self.rng.random(), self._forward()
        if kind < 0.35:
            return f"IfDefined({forward})"
        if kind < 0.55:
            return f"Failover({forward}, {self._forward()})"
        if kind < 0.7:
            return f"Failover({forward}, Offset(input, {self.rng.choice([-1, 0, 1])}))"
        return f"Failover({forward}, IfDefined({self._forward()}))" if kind < 0.8 else forward

    def request(self, length: int) -> nnet3.ComputationRequest:
        """Input with gaps, perhaps some values of a node, outputs anywhere."""
        rng = self.rng
        holes = 8 / length if rng.random() < 0.4 else 0.0
        sequences = rng.choice([[0], [0], [0, 1]])
        rows = [(n, t) for n in sequences for t in range(length + 5 * n) if rng.random() >= holes]
        given = [nnet3.IoSpecification("input", rows)]
        if rng.random() < 0.6:
            first = rng.choice([-5, -1, length // 2, length])
            some = {(n, first + rng.randint(-3, 3)) for n in sequences for _ in range(rng.choice([1, 3, 6]))}
            given.append(nnet3.IoSpecification(rng.choice(self.names), sorted(some)))
        every = list(range(0, length, rng.choice([1, 3, 7])))
        times = rng.choice([[length - 1], [0], [length // 2], every, every])
        return nnet3.ComputationRequest(
            given, [nnet3.IoSpecification("output", [(n, t) for n in sequences for t in times])]
        )


def sweep(nnet: nnet3.Nnet, request: nnet3.ComputationRequest) -> tuple[str, Sweeps]:
    """The sweeps, and the complaint if there was one."""
    sweeps = Sweeps(nnet_source(nnet), lowering_request(nnet, request))
    try:
        sweeps.run()
    except RequestError as error:
        return str(error), sweeps
    return "", sweeps


def same(mine: Sequence[Mask | None], others: Sequence[Mask | None]) -> bool:
    return all(
        (a is None) == (b is None) and (a is None or np.array_equal(a, b)) for a, b in zip(mine, others, strict=True)
    )


@pytest.mark.parametrize("block", range(draws(2)))
def test_both_sweeps_come_to_one_state(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    checked = 0
    for seed in range(20 * block, 20 * block + 20):
        network = _Network(seed)
        try:
            nnet = nnet3.Nnet.from_config(network.text)
        except ConfigError:
            continue  # a cycle that never moves
        request = network.request(network.rng.choice([20, 40, 120]))
        complaint, found = sweep(nnet, request)
        if complaint:
            continue
        with monkeypatch.context() as patch:
            patch.setattr(Domain, "is_one_way", lambda domain, nodes: False)
            patch.setattr(_NeedSweep, "_walk", lambda sweep, inside: None)
            slow_complaint, slow = sweep(nnet, request)
        assert not slow_complaint
        assert same(found.computability.known, slow.computability.known), network.text
        assert same(found.need, slow.need), network.text
        checked += 1
    assert checked >= 4


@pytest.mark.parametrize("seed", range(1000, 1000 + 10 * EFFORT))
def test_recurrences_hop_by_hop(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The builder of the tests complains of more recurrences: also of those whose far end nobody uses."""
    monkeypatch.setattr("tests.hop_by_hop_builder._MAX_BEYOND", 200)
    network = _Network(seed)
    try:
        nnet = nnet3.Nnet.from_config(network.text)
    except ConfigError:
        return
    request = network.request(20)
    complaint, sweeps = sweep(nnet, request)
    builder = GraphBuilder(nnet, request)
    try:
        builder.compute()
    except RequestError:
        return
    assert not complaint
    for new, old in zip(sweeps.outputs_computable(), builder.outputs_computable(), strict=True):
        assert np.array_equal(new, old)
    given = sweeps.ground.given
    needed = sum(
        int((need | given.get(node, False)).sum()) for node, need in enumerate(sweeps.need) if need is not None
    )
    assert needed * sweeps.classes.members.size // sweeps.classes.num_classes == len(builder.prune().node)


LONG = 20_000


@pytest.mark.parametrize(
    ("recurrence", "given", "wanted", "num_used"),
    [
        ("IfDefined(Offset(a, -1))", None, LONG - 1, LONG),
        ("IfDefined(Offset(a, 1))", None, 0, LONG),
        ("Offset(a, -1)", -1, LONG - 1, LONG),
        ("IfDefined(Offset(a, -3)), IfDefined(Offset(a, -2))", None, LONG - 1, LONG - 1),
        ("IfDefined(Switch(Offset(a, -3), Offset(a, 2)))", None, LONG - 1, None),
        ("IfDefined(Switch(Offset(a, -1), Offset(a, -5)))", None, LONG - 1, None),
        ("IfDefined(Offset(Round(a, 3), -3))", None, LONG - 1, None),
        ("Failover(Offset(a, -1), ReplaceIndex(input, t, 0))", None, LONG - 1, LONG),
    ],
)  # fmt: skip
def test_long_recurrences_take_few_rounds(
    recurrence: str, given: int | None, wanted: int, num_used: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f"component-node name=a component=noop input=Sum(input, {recurrence})\noutput-node name=output input=a"
    nnet = nnet3.Nnet.from_config(HEAD + text)
    inputs = [nnet3.IoSpecification("input", [(0, t) for t in range(LONG)])]
    if given is not None:
        inputs.append(nnet3.IoSpecification("a", [(0, given)]))
    worked_on = []

    def noted(function: Callable[..., Any]) -> Callable[..., Any]:
        def noting(self: Any, node: int, *others: Any) -> Any:
            worked_on.append(node)
            return function(self, node, *others)

        return noting

    for kind, name in ((Computability, "_evaluate"), (_NeedSweep, "_mark")):
        monkeypatch.setattr(kind, name, noted(getattr(kind, name)))
    complaint, sweeps = sweep(nnet, nnet3.ComputationRequest(inputs, [nnet3.IoSpecification("output", [(0, wanted)])]))
    assert not complaint
    assert all(rows.all() for rows in sweeps.outputs_computable())
    need = sweeps.need[nnet.node_number["a_input"]]
    assert need is not None
    assert num_used is None or need.sum() == num_used
    assert len(worked_on) < 600


@pytest.mark.parametrize("way", [1, -1])
@pytest.mark.parametrize(("column", "distance"), [(1, 600), (2, 15)])
def test_a_value_goes_all_the_way(column: int, distance: int, way: int) -> None:
    """Given at one end, wanted at the other: the window of a recurrence grows as far as that."""
    step = ["0", "0"]
    step[column - 1] = str(-way)
    nodes = f"component-node name=a component=noop input=Failover(input, Offset(a, {', '.join(step)}))\n"
    nnet = nnet3.Nnet.from_config(HEAD + nodes + "output-node name=output input=a")
    first, last = [0, 0, 0], [0, 0, 0]
    last[column] = way * distance
    request = nnet3.ComputationRequest(
        [nnet3.IoSpecification("input", [first])], [nnet3.IoSpecification("output", [last])]
    )
    assert computable_outputs(nnet_source(nnet), lowering_request(nnet, request))[0].all()
    computer = nnet3.NnetComputer(nnet3.compile(nnet, request), nnet)
    computer.accept_input("input", np.array([[7.0]]))
    computer.run()
    assert computer.get_output("output").tolist() == [[7.0]]


def test_rows_that_only_hold_each_other_up_are_not_computable() -> None:
    """Rows beyond a gap could be computed if the last one was, which looks at itself."""
    node = "component-node name=a component=noop input=Sum(input, Failover(Offset(a, -1), ReplaceIndex(a, t, 39)))\n"
    nnet = nnet3.Nnet.from_config(HEAD + node + "output-node name=output input=a")
    times = [*range(20), *range(30, 40)]
    request = nnet3.ComputationRequest(
        [nnet3.IoSpecification("input", [(0, t) for t in times]), nnet3.IoSpecification("a", [(0, -1)])],
        [nnet3.IoSpecification("output", [(0, t) for t in times])],
    )
    found = computable_outputs(nnet_source(nnet), lowering_request(nnet, request))[0]
    assert found.tolist() == [t < 20 for t in times]


def test_sweeps_that_are_handed_over_are_not_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    each = loop()
    sweeps, program = finished_sweeps(each.source, each.request), lower(each.source, each.request)
    monkeypatch.delattr(Sweeps, "run")
    assert str(lower(each.source, each.request, sweeps)) == str(program)
