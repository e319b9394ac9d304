"""Epsilons that neighbouring arcs take in: what lattice-to-fst of Kaldi writes for these graphs."""

from __future__ import annotations

import numpy as np
import pytest

from nnet3.kaldi_io import Fst
from nnet3.training.chain.graphs.local_epsilons import without_local_epsilons

Arcs = list[tuple[int, int, int, float]]  # from, to, label, cost


def acceptor(arcs: Arcs, final: dict[int, float], states: int) -> Fst:
    src, dst, label, cost = zip(*arcs, strict=True)
    return Fst.from_arcs(0, [final.get(state, np.inf) for state in range(states)], src, dst, label, cost)


def assert_becomes(fst: Fst, arcs: Arcs, final: dict[int, float]) -> None:
    made = without_local_epsilons(fst)
    columns = (made.src.tolist(), made.dst.tolist(), made.ilabel.tolist(), made.cost.tolist())
    assert list(zip(*columns, strict=True)) == arcs
    assert {state: cost for state, cost in enumerate(made.final.tolist()) if cost < np.inf} == final


def test_equal_arcs_and_epsilons_between_forks_stay() -> None:
    arcs = [(0, 1, 5, 2), (0, 1, 5, 3), (0, 2, 0, 1), (1, 3, 0, 0.75), (1, 3, 4, 3.5), (1, 4, 0, 0.75)]
    arcs += [(2, 3, 6, 1.5), (2, 4, 0, 2), (2, 5, 7, 2), (3, 6, 0, 1), (3, 6, 8, 1.5), (4, 6, 0, 2), (4, 6, 9, 1.5)]
    expected = [(0, 1, 5, 2), (0, 1, 5, 3), (0, 2, 6, 2.5), (0, 3, 0, 3), (1, 2, 0, 0.75), (1, 2, 4, 3.5)]
    expected += [(1, 3, 0, 0.75), (2, 4, 8, 1.5), (3, 4, 9, 1.5)]
    assert_becomes(acceptor(arcs, {4: 0.25, 6: 0.25}, 7), expected, {2: 1.25, 3: 0.25, 4: 0.25})


def test_cycles_of_epsilons_stay() -> None:
    arcs = [(0, 1, 0, 1.5), (1, 2, 0, 2.5), (0, 2, 3, 2.5), (2, 1, 0, 2.5)]
    expected = [(0, 1, 3, 2.5), (0, 1, 0, 4), (1, 1, 0, 5)]
    assert_becomes(acceptor(arcs, {2: 0.5}, 3), expected, {1: 0.5})


@pytest.mark.parametrize("label", [0, 1])
def test_dead_ends_go(label: int) -> None:
    arcs: Arcs = [(0, 1, label, 1), (0, 2, 2, 1)]
    assert_becomes(acceptor(arcs, {2: 0}, 3), [(0, 1, 2, 1)], {1: 0})


def test_no_states() -> None:
    assert without_local_epsilons(Fst.empty()).num_states == 0
