"""Lattices of the search: order, best costs, pruning."""

from __future__ import annotations

import numpy as np
import pytest

from tests.asr.slow_search import paths_of
from tests.asr.toy_lattices import random_lattice


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
