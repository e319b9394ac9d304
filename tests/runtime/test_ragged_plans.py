"""Plans of programs for several sets of lengths: had by arithmetic, they run as those that are made for each alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from nnet3 import cn
from nnet3.engine.driver import ComputationCache
from nnet3.engine.ir.computation import NnetComputation, RowNumbers
from nnet3.engine.runtime import Plan, plan, plan_of, ragged_plans
from nnet3.engine.runtime.link import LinkedComputation
from nnet3.engine.runtime.linker import Linker
from nnet3.engine.runtime.planning import unplaced_plan
from nnet3.engine.runtime.unplaced_plan import UnplacedPlan
from nnet3.errors import ProofError
from tests.effort import EFFORT, at_night
from tests.families.minibatches import minibatch, recurrence
from tests.seeds import shifted


def network(kind: str, lag: int = 1) -> cn.Network:
    return cn.Network(*recurrence(lag, kind), cache=ComputationCache(), dtype=torch.float64)


def sets_of_lengths(count: int, longest: int = 47) -> list[tuple[int, ...]]:
    """Of nine to twelve sequences of at most so many frames, about as long as that: one program serves all."""
    rng = np.random.default_rng(shifted(5))
    sets = [rng.integers(1, longest + 1, rng.integers(9, 13)) for _ in range(count)]
    return [tuple(sorted((longest - int(rng.integers(4)), *map(int, each[1:])), reverse=True)) for each in sets]


def programs_of(net: cn.Network, sets: Sequence[tuple[int, ...]]) -> list[NnetComputation]:
    return [net.program(minibatch(net, lengths)) for lengths in sets]


@pytest.mark.parametrize(("kind", "lag"), [("plain", 1), *at_night(("late", 2), ("both ways", 1), ("carried", 1))])
def test_plans_are_those_made_for_each_alone(kind: str, lag: int) -> None:
    """But for the places of matrices, which lie apart, for views that are one only in this program, and for tables."""
    net = network(kind, lag)
    programs = programs_of(net, sets_of_lengths(5))
    assert {program.row_numbers is not None for program in programs} == {True}
    assert any(program.is_lazy for program in programs)
    for program in programs:
        found, alone = plan_of(program, "float64"), plan(replace(program, row_numbers=None), "float64")
        assert (found.segments[0].accepts, found.outside, found.kernels) == (
            *(alone.segments[0].accepts, alone.outside, alone.kernels),
        )
        np.testing.assert_array_equal(found.loops[:, 2:], alone.loops[:, 2:])
        np.testing.assert_array_equal(found.spans[:, :3], alone.spans[:, :3])
        if not program.index_tables:
            assert (found.opcodes, found.segments) == (alone.opcodes, alone.segments)
            np.testing.assert_array_equal(found.call_opcode, alone.call_opcode)
        assert len(found.uneven) == len(alone.uneven)
        for one, other in zip(found.uneven, alone.uneven, strict=True):
            np.testing.assert_array_equal(one, other)
        made = unplaced_plan(program, "float64")
        begin, matrices = found.spans[:, 3], np.flatnonzero(made.blocks[:, 0])
        end, meet = begin + made.num_bytes[matrices], made.meet()[np.ix_(matrices, matrices)]
        apart = (end[:, None] <= begin) | (end <= begin[:, None])
        assert (apart | ~meet | np.eye(len(begin), dtype=bool)).all()
        assert end.max() <= found.num_bytes


@pytest.mark.parametrize(
    ("kind", "lag"), [("late", 2), *at_night(("carried", 1), ("plain", 1), ("plain", -2), ("both ways", 1))]
)
def test_ever_new_sets_of_lengths(kind: str, lag: int) -> None:
    """One network computes them all, some of them twice, as another does that is compiled anew without passes."""
    criterion, outputs = recurrence(lag, kind)
    net, alone = (cn.Network(criterion, outputs, cache=ComputationCache(), dtype=torch.float64) for _ in range(2))
    alone.optimize = False
    longest = 31 if EFFORT > 1 else 23
    sets = sets_of_lengths(2 if EFFORT == 1 else 3 * EFFORT, longest)
    for number, lengths in enumerate([*sets, (longest - 1,) * 9, sets[1], *sets_of_lengths(1, longest - 8)]):
        given = minibatch(net, lengths)
        found = net.criterion_and_gradients(given)
        if EFFORT == 1 and number % 3 == 0:
            continue
        alone.cache.clear()
        value, gradients = alone.criterion_and_gradients(given)
        np.testing.assert_allclose(found[0], value, rtol=1e-10)
        for name, gradient in gradients.items():
            np.testing.assert_allclose(found[1][name], gradient, rtol=1e-8, atol=1e-10, err_msg=name)


def test_memory_is_that_of_the_largest_so_far() -> None:
    net = network("plain")
    sets = [(47,) * 11 + (1,), (47,) * 11 + (46,), (47,) + (2,) * 11, (47,) + (20,) * 11]
    programs = programs_of(net, sets)
    _, first, *others = (plan_of(program, "float64") for program in programs)  # that of the first is its own
    alone = plan(replace(programs[1], row_numbers=None), "float64")
    assert alone.num_bytes <= first.num_bytes <= 1.1 * alone.num_bytes
    assert {made.num_bytes for made in others} == {first.num_bytes}


def test_longer_sets_are_packed_in_the_order_of_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """They take about as much memory as packed anew."""
    packed: list[str] = []
    programs = programs_of(network("plain"), [(47,) * 9 + (last,) * 3 for last in (2, 3, 20, 33, 46)])
    plan_of(programs[0], "float64")  # that of the first is its own
    monkeypatch.setattr(UnplacedPlan, "packed", noted(UnplacedPlan.packed, packed))
    plans = [plan_of(program, "float64") for program in programs[1:]]
    assert len(packed) == 1
    sizes = [made.num_bytes for made in plans]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1] <= 1.1 * plan(replace(programs[-1], row_numbers=None), "float64").num_bytes


@pytest.mark.parametrize("native", [True, *at_night(False)])
def test_new_lengths_bind_nothing_anew(native: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """After some sets of lengths nothing is bound but iterations of loops that PyTorch runs; the numbers are the
    same."""
    bound: list[str] = []
    for kind, name in ((LinkedComputation, "__init__"), (Linker, "bind_stand_ins")):
        monkeypatch.setattr(kind, name, noted(getattr(kind, name), bound))
    if not native:
        monkeypatch.setattr("nnet3.engine.runtime.native_runs.library", lambda: None)
    criterion, outputs = recurrence(1, "plain")
    net, alone = cn.Network(criterion, outputs, cache=ComputationCache()), cn.Network(criterion, outputs)
    alone.optimize = False
    sets = sets_of_lengths(10)
    # First, for it may take more memory, and then all is linked anew.
    expected = [alone.gradients(minibatch(net, lengths)) for lengths in sets[7:]]
    for lengths in [(47,) * 11 + (46,), (47,) * 11 + (45,), *sets[:7]]:
        net.gradients(minibatch(net, lengths))
    for lengths, gradients in zip(sets[7:], expected, strict=True):
        bound.clear()
        found = net.gradients(minibatch(net, lengths))
        assert not bound
        for name, gradient in gradients.items():
            size = np.abs(gradient).max() + 1e-3
            np.testing.assert_allclose(found[name] / size, gradient / size, atol=2e-5, err_msg=name)


#: Few sequences of one form; those of the third set need more memory, and the last ones other iterations of the loops.
FEW = [(17, 9, 2), (17, 3, 2), (17, 17, 16), (18, 2, 1)]


@pytest.mark.parametrize(("kind", "lag"), [("late", 2), *at_night(("plain", -2), ("plain", 1), ("carried", 1))])
def test_plans_that_are_had_by_arithmetic_are_proved(kind: str, lag: int) -> None:
    programs = programs_of(network(kind, lag), FEW[:3])
    plans = [plan_of(program, "float64", prove=True) for program in programs]
    assert any(made.are_views_apart for made in plans), "the others are planned alone"


def test_memory_that_did_not_grow_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    first: dict[int, tuple[np.ndarray, int]] = {}
    placed = UnplacedPlan.placed

    def as_first(self: UnplacedPlan, offsets: np.ndarray, num_bytes: int) -> Plan:
        return placed(self, *first.setdefault(len(self.blocks), (offsets, num_bytes)))

    programs = programs_of(network("plain"), FEW[:3])
    monkeypatch.setattr(UnplacedPlan, "placed", as_first)
    with pytest.raises(ProofError):
        [plan_of(program, "float64", prove=True) for program in programs]


def test_iterations_of_other_lengths_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    first: list[list[int]] = []
    of_rows = ragged_plans.RaggedPlans.plan

    def as_first(self: ragged_plans.RaggedPlans, rows: RowNumbers) -> Plan:
        first.append(list(rows.num_iterations))
        return of_rows(self, replace(rows, num_iterations=first[0]))

    programs = programs_of(network("plain"), FEW)
    monkeypatch.setattr(ragged_plans.RaggedPlans, "plan", as_first)
    with pytest.raises(ProofError):
        [plan_of(program, "float64", prove=True) for program in programs]


def noted(function: Callable[..., Any], calls: list[str]) -> Callable[..., Any]:
    def noting(*args: Any, **named: Any) -> Any:
        calls.append(function.__name__)
        return function(*args, **named)

    return noting
