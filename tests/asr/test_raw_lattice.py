"""Lattices of the search: order, best costs, pruning."""

from __future__ import annotations

import numpy as np
import pytest

from nnet3.asr.raw_lattice import RawLattice, longest_paths
from nnet3.errors import ExecutionError
from tests.asr.slow_search import paths_of
from tests.seeds import RANDOM


def random_lattice(rows: int = 4) -> RawLattice:
    """Three states a row; arcs to the next row, and within rows. The states are given in a wild order."""
    row = np.append(0, np.repeat(np.arange(1, rows + 1), 3))
    is_first = np.append(True, np.diff(row) > 0)
    some = (RANDOM.random((len(row), len(row))) < 0.8) | (is_first[:, None] & is_first)
    src, dst = np.nonzero((row[:, None] == row - 1) & some)
    low, high = np.nonzero((row[:, None] == row) & np.triu(RANDOM.random((len(row), len(row))) < 0.4, 1))
    order = np.append(0, 1 + RANDOM.permutation(len(row) - 1))
    src, dst, row_of = order[np.append(src, low)], order[np.append(dst, high)], np.empty_like(row)
    row_of[order] = row
    emits = row_of[src] != row_of[dst]
    final = np.where(row_of == rows, RANDOM.random(len(row)), np.inf)
    word = RANDOM.integers(0, 3, len(src))
    return RawLattice.sorted(
        row_of, src, dst, word, emits * 1, RANDOM.random(len(src)), RANDOM.normal(size=len(src)), final
    )


def test_states_are_in_order_and_best_costs_are_those_of_the_best_paths() -> None:
    for _ in range(10):
        lattice = random_lattice()
        assert (lattice.src < lattice.dst).all()
        assert (np.diff(lattice.src) >= 0).all()
        assert (lattice.level[lattice.src] < lattice.level[lattice.dst]).all()
        costs = [cost for paths in paths_of(lattice).values() for cost, _ in paths]
        assert lattice.best_cost == pytest.approx(min(costs))
        assert (lattice.forward + lattice.final_cost).min() == pytest.approx(min(costs))


def test_pruning_keeps_the_paths_within_the_beam() -> None:
    for beam in (0.0, 0.5, 2.0, 100.0):
        lattice = random_lattice()
        costs = [cost for paths in paths_of(lattice).values() for cost, _ in paths]
        kept = [cost for paths in paths_of(lattice.pruned(beam)).values() for cost, _ in paths]
        inside = sorted(cost for cost in costs if cost <= min(costs) + beam)
        assert sorted(kept)[: len(inside)] == pytest.approx(inside)
        assert (lattice.pruned(beam).forward < np.inf).all()


def test_a_cycle_has_no_longest_path() -> None:
    assert longest_paths(4, np.array([0, 1, 0]), np.array([1, 2, 2])).tolist() == [0, 1, 2, 0]
    with pytest.raises(ExecutionError, match="the lattice has a cycle"):
        longest_paths(2, np.array([0, 1]), np.array([1, 0]))
