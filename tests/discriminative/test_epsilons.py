"""Removal of arcs without a transition-id: paths stay, arcs come in OpenFst's order."""

from __future__ import annotations

import numpy as np
import pytest

from nnet3.base.kaldi_io.lattice import Lattice
from nnet3.training.discriminative.epsilons import without_epsilons
from nnet3.training.discriminative.supervision import acceptor, ids_of_arcs
from tests.discriminative.small_supervision import random_lattice


def _of(final: dict[int, float], arcs: list[tuple[int, int, int, float]]) -> Lattice:
    states = 1 + max(max(src, dst) for src, dst, *_ in arcs)
    ends = np.full(states, np.inf)
    ends[list(final)] = list(final.values())
    src, dst, ids, graph = (np.array(column) for column in zip(*arcs, strict=True))
    return acceptor(ends, src, dst, ids, graph, np.zeros(len(arcs)))


def _arcs(lattice: Lattice) -> list[tuple[int, int, int, float]]:
    fst = lattice.fst
    return list(zip(fst.src.tolist(), fst.dst.tolist(), fst.ilabel.tolist(), fst.cost.tolist(), strict=True))


def _best(lattice: Lattice) -> dict[tuple[int, ...], float]:
    """The best cost of each sequence of transition-ids."""
    fst, found = lattice.fst, dict[tuple[int, ...], float]()
    waiting = [(fst.start, tuple[int, ...](), 0.0)]
    while waiting:
        state, ids, cost = waiting.pop()
        if fst.final[state] < np.inf:
            end = float(fst.final[state]) + float(lattice.final_acoustic_cost[state])
            found[ids] = min(cost + end, found.get(ids, np.inf))
        for arc in range(fst.offsets[state], fst.offsets[state + 1]):
            more = (int(fst.ilabel[arc]),) if fst.ilabel[arc] else ()
            step = float(fst.cost[arc]) + float(lattice.acoustic_cost[arc])
            waiting.append((int(fst.dst[arc]), ids + more, cost + step))
    return found


def test_arcs_of_states_are_reversed_and_those_of_the_start_are_its_entries() -> None:
    entries = [(0, 1, 0, 0.5), (0, 2, 0, 0.25)]
    found = without_epsilons(
        _of({4: 0}, [*entries, (1, 3, 1, 1), (1, 3, 2, 2), (2, 3, 3, 3), (3, 4, 4, 0), (3, 4, 5, 0)])
    )
    assert _arcs(found) == [(0, 1, 2, 2.5), (0, 1, 1, 1.5), (0, 1, 3, 3.25), (1, 2, 5, 0), (1, 2, 4, 0)]


def test_the_better_of_equal_arcs_stays_in_the_place_of_the_first() -> None:
    arcs = [(0, 1, 1, 5.0), (0, 1, 2, 1.0), (0, 1, 1, 3.0), (1, 2, 1, 0.0)]
    assert _arcs(without_epsilons(_of({2: 0}, arcs))) == [(0, 1, 2, 1.0), (0, 1, 1, 3.0), (1, 2, 1, 0.0)]


def test_chains_of_such_arcs_and_ends_behind_them() -> None:
    arcs = [(0, 1, 7, 1.0), (1, 2, 0, 0.5), (1, 3, 0, 2.0), (2, 3, 0, 0.5), (3, 4, 8, 0.0), (2, 4, 9, 0.0)]
    found = without_epsilons(_of({4: 0.25, 3: 1.0}, arcs))
    assert _arcs(found) == [(0, 1, 7, 1.0), (1, 2, 9, 0.5), (1, 2, 8, 1.0)]
    assert found.fst.final.tolist() == [np.inf, 2.0, 0.25]


@pytest.mark.parametrize("seed", range(12))
def test_best_paths_stay(seed: int) -> None:
    lattice = random_lattice(np.random.default_rng(seed), 4, with_epsilons=True)
    found = without_epsilons(lattice)
    assert (ids_of_arcs(found) > 0).all()
    before, after = _best(lattice), _best(found)
    assert after.keys() == before.keys()
    assert all(after[ids] == pytest.approx(cost, abs=1e-5) for ids, cost in before.items())


def test_nothing_has_no_epsilons() -> None:
    none = acceptor([], [], [], [], [], [])
    assert without_epsilons(none) is none
