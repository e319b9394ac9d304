"""Golden rescored lattices, and how close lattices are to each other."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np

from nnet3.base.kaldi_io.lattice import Lattice, open_lattice_table
from nnet3.base.kaldi_io.lattice_factoring import factored
from tests.rescoring_data import rescoring_cases

CASES = rescoring_cases("rescore")

Words = tuple[int, ...]
Path_ = tuple[tuple[int, ...], float, float]  # transition-ids, graph and acoustic cost


def lattices(path: Path) -> dict[str, Lattice]:
    """Returns a table of lattices, compact."""
    with open_lattice_table(f"ark:{path}") as table:
        return {key: factored(lattice) if lattice.is_plain else lattice for key, lattice in table}


def paths(lattice: Lattice) -> dict[Words, list[Path_]]:
    """Returns all paths of a lattice by their words, the best first."""
    fst, found = lattice.fst, defaultdict[Words, list[Path_]](list)
    ids = [lattice.transition_ids[np.array([arc])].values.tolist() for arc in range(fst.num_arcs)]
    waiting: list[tuple[int, Words, tuple[int, ...], float, float]] = [(fst.start, (), (), 0.0, 0.0)]
    while waiting and fst.num_states:
        state, words, said, graph, acoustic = waiting.pop()
        if fst.final[state] < np.inf:
            last = tuple(lattice.final_transition_ids[np.array([state])].values.tolist())
            ended = graph + float(fst.final[state]), acoustic + float(lattice.final_acoustic_cost[state])
            found[words].append((said + last, *ended))
        for arc in range(fst.offsets[state], fst.offsets[state + 1]):
            word = (int(fst.ilabel[arc]),) if fst.ilabel[arc] else ()
            costs = graph + float(fst.cost[arc]), acoustic + float(lattice.acoustic_cost[arc])
            waiting.append((int(fst.dst[arc]), words + word, (*said, *ids[arc]), *costs))
    return {words: sorted(each, key=lambda path: path[1] + path[2]) for words, each in found.items()}


def assert_same_paths(made: Lattice, wanted: Lattice, bound: float = 1e-4) -> None:
    """The same words with the same transition-ids, one path each, and costs within the bound."""
    found, right = paths(made), paths(wanted)
    assert set(found) == set(right)
    for words, each in right.items():
        ((ids, *costs),) = found[words]
        assert ids == each[0][0]
        np.testing.assert_allclose(costs, each[0][1:], atol=bound, rtol=0)


def assert_same_arcs(made: Lattice, wanted: Lattice, bound: float = 1e-4) -> None:
    """The same states and arcs in the same order, and costs within the bound."""
    for name in ("offsets", "ilabel", "dst"):
        np.testing.assert_array_equal(getattr(made.fst, name), getattr(wanted.fst, name))
    for strings in ("transition_ids", "final_transition_ids"):
        np.testing.assert_array_equal(getattr(made, strings).offsets, getattr(wanted, strings).offsets)
        np.testing.assert_array_equal(getattr(made, strings).values, getattr(wanted, strings).values)
    for one, other in (
        *((made.fst.cost, wanted.fst.cost), (made.fst.final, wanted.fst.final)),
        *((made.acoustic_cost, wanted.acoustic_cost), (made.final_acoustic_cost, wanted.final_acoustic_cost)),
    ):
        np.testing.assert_allclose(one, other, atol=bound, rtol=0)
