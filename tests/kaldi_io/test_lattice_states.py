"""The order and the times of a lattice's states."""

from __future__ import annotations

import numpy as np
import pytest

from nnet3.base.kaldi_io.fst import Fst
from nnet3.base.kaldi_io.lattice import Lattice, Strings, no_strings
from nnet3.base.kaldi_io.lattice_states import connected, state_times, topologically_sorted
from nnet3.errors import ModelFormatError


def _lattice(states: int, arcs: list[tuple[int, int, int]], end: int) -> Lattice:
    """A plain lattice of arcs (source, destination, transition-id), whose costs are the numbers of its arcs."""
    final = np.full(states, np.inf, np.float32)
    final[end] = 0
    src, dst, ids = (np.array(column) for column in zip(*arcs, strict=True))
    order = np.argsort(src, kind="stable")
    fst = Fst.from_arcs(0, final, src, dst, ids, np.arange(len(arcs)))
    strings = Strings.of(ids[order] > 0, ids[order][ids[order] > 0])
    acoustic, ends = np.zeros(len(arcs), np.float32), np.zeros(states, np.float32)
    return Lattice(fst, acoustic, ends, strings, no_strings(states), is_plain=True)


def test_states_are_numbered_as_in_the_example_of_the_facts() -> None:
    arcs = [(0, 1, 1), (0, 2, 2), (1, 3, 2), (2, 3, 3), (2, 4, 4), (3, 5, 3), (3, 5, 4), (4, 5, 2)]
    found = topologically_sorted(_lattice(6, arcs, 5))
    lines = list(zip(found.fst.src.tolist(), found.fst.dst.tolist(), found.fst.ilabel.tolist(), strict=True))
    assert lines == [(0, 3, 1), (0, 1, 2), (1, 4, 3), (1, 2, 4), (2, 5, 2), (3, 4, 2), (4, 5, 3), (4, 5, 4)]
    assert found.fst.cost.tolist() == [0, 1, 3, 4, 7, 2, 5, 6]
    assert topologically_sorted(found) is found


def test_times_count_transition_ids_and_no_epsilons() -> None:
    lattice = _lattice(5, [(0, 2, 1), (0, 1, 0), (1, 2, 3), (2, 3, 0), (3, 4, 7)], 4)
    assert state_times(lattice).tolist() == [0, 0, 1, 1, 2]


@pytest.mark.parametrize(
    ("arcs", "message"),
    [([(0, 1, 1), (1, 2, 1), (2, 1, 1)], "cycle"), ([(0, 1, 1), (1, 2, 1), (0, 2, 1)], "to state 2")],
)
def test_lattices_without_times_are_refused(arcs: list[tuple[int, int, int]], message: str) -> None:
    with pytest.raises(ModelFormatError, match=message):
        state_times(_lattice(3, arcs, 2))


def test_a_cycle_cannot_be_sorted() -> None:
    with pytest.raises(ModelFormatError, match="cycle"):
        topologically_sorted(_lattice(3, [(0, 1, 1), (1, 2, 1), (2, 1, 1)], 2))


def test_connected_drops_dead_ends_and_what_is_not_reached() -> None:
    found = connected(_lattice(5, [(0, 1, 1), (0, 2, 2), (3, 1, 3), (1, 4, 4)], 4))
    assert found.fst.src.tolist() == [0, 1]
    assert found.fst.dst.tolist() == [1, 2]
    assert found.transition_ids.values.tolist() == [1, 4]
