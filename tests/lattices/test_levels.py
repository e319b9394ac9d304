"""Best costs level by level, and longest paths."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from nnet3.errors import ExecutionError
from nnet3.speech.arrays.aliases import Integers
from nnet3.speech.lattices import levels
from nnet3.speech.lattices.levels import longest_paths
from tests.asr.slow_search import paths_of
from tests.asr.toy_lattices import random_lattice
from tests.native.native_code import needs_native_code
from tests.seeds import RANDOM


def test_one_best_path() -> None:
    for _ in range(5):
        lattice = random_lattice()
        states, arcs, ends = lattice.on_best_path()
        costs = [cost for paths in paths_of(lattice).values() for cost, _ in paths]
        assert lattice.cost[arcs].sum() + lattice.final_cost[ends].sum() == pytest.approx(min(costs))
        assert (states.sum(), ends.sum()) == (arcs.sum() + 1, 1)


def test_states_that_lead_nowhere_are_not_within_any_beam() -> None:
    lattice = random_lattice()
    lattice.final_graph[:] = np.inf
    lattice.final_graph[-1] = 0
    states, arcs, ends = lattice.within(np.inf)
    assert (lattice.backward[states] < np.inf).all()
    assert (lattice.backward[lattice.dst[arcs]] < np.inf).all()
    assert np.flatnonzero(ends).tolist() == [lattice.num_states - 1]


def test_longest_paths_are_those_of_the_definition() -> None:
    for _ in range(5):
        lattice = random_lattice()
        depth = np.zeros(lattice.num_states, np.int64)
        for src, dst in zip(lattice.src.tolist(), lattice.dst.tolist(), strict=True):  # in the order of sources
            depth[dst] = max(depth[dst], depth[src] + 1)
        mixed = RANDOM.permutation(len(lattice.src))
        assert longest_paths(lattice.num_states, lattice.src[mixed], lattice.dst[mixed]).tolist() == depth.tolist()
    assert longest_paths(0, np.zeros(0, int), np.zeros(0, int)).tolist() == []


def test_a_cycle_has_no_longest_path() -> None:
    assert longest_paths(4, np.array([0, 1, 0]), np.array([1, 2, 2])).tolist() == [0, 1, 2, 0]
    with pytest.raises(ExecutionError, match="the lattice has a cycle"):
        longest_paths(2, np.array([0, 1]), np.array([1, 0]))


@needs_native_code
def test_costs_and_paths_in_c_are_those_of_numpy_to_the_last_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arcs may come in any order, several between the same states; costs of arcs and ends may be infinite."""
    for number in range(40):
        states = int(RANDOM.integers(1, 12))
        src, dst = np.sort(RANDOM.integers(0, states, (2, 3 * states)), axis=0)
        kept = src < dst if number % 4 else src <= dst
        src, dst = src[kept], dst[kept]
        native = _outcome(states, src, dst)
        lattice = random_lattice(number % 5)
        lattice.graph_cost[RANDOM.random(len(lattice.src)) < 0.1] = np.inf
        found = replace(lattice)
        assert found.forward[0] == 0
        with monkeypatch.context() as patch:
            patch.setattr(levels, "library", lambda: None)
            assert _outcome(states, src, dst) == native
            assert np.array_equal(found.forward, lattice.forward)
            assert np.array_equal(found.backward, lattice.backward)


def _outcome(states: int, src: Integers, dst: Integers) -> list[int] | str:
    try:
        return list(longest_paths(states, src[::-1], dst[::-1]).tolist())
    except ExecutionError as error:
        return str(error)
