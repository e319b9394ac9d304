"""Lattices of tables as lattices of labels, level by level."""

from __future__ import annotations

import numpy as np
import pytest

from nnet3.base.kaldi_io.fst import Fst
from nnet3.base.kaldi_io.lattice import Lattice, Strings, no_strings
from nnet3.errors import ExecutionError
from nnet3.speech.lattices.label_lattice import LabelLattice


def _lattice(start: int, ends: dict[int, float], arcs: list[tuple[int, int, int, float]]) -> Lattice:
    """A compact lattice of arcs (source, destination, word, cost), each with its word as transition-id."""
    states = 1 + max([start, *ends, *(state for src, dst, *_ in arcs for state in (src, dst))])
    final = np.full(states, np.inf)
    final[list(ends)] = list(ends.values())
    src, dst, word, cost = (np.array(column) for column in zip(*arcs, strict=True))
    order = np.argsort(src, kind="stable")
    fst = Fst.from_arcs(start, final, src, dst, word, cost)
    ids = Strings.of(np.ones(len(arcs), np.int64), word[order])
    return Lattice(fst, np.ones(len(arcs), np.float32), np.zeros(states, np.float32), ids, no_strings(states))


def test_levels_rise_along_arcs_and_the_start_is_first() -> None:
    arcs = [(3, 1, 7, 1.0), (1, 0, 8, 0.5), (3, 0, 9, 3.0), (2, 0, 6, 0.0)]
    found = LabelLattice.of(_lattice(3, {0: 0.25}, arcs))
    assert found.level.tolist() == [0, 1, 2]  # state 2 is not reached
    assert found.src.tolist() == [0, 0, 1]
    assert found.dst.tolist() == [1, 2, 2]
    assert found.label.tolist() == found.ids.values.tolist() == [7, 9, 8]
    assert found.best_cost == pytest.approx(1.5 + 2 + 0.25)
    assert found.final_cost.tolist() == [np.inf, np.inf, 0.25]


def test_pruned_lattice_goes_back_to_a_table() -> None:
    arcs = [(0, 1, 7, 1.0), (0, 1, 9, 3.0)]
    found = LabelLattice.of(_lattice(0, {1: 0.0}, arcs)).pruned(1.0).lattice()
    assert found.fst.ilabel.tolist() == [7]
    assert found.acoustic_cost.tolist() == [1]


def test_what_has_no_levels_is_refused() -> None:
    with pytest.raises(ExecutionError, match="cycle"):
        LabelLattice.of(_lattice(0, {1: 0.0}, [(0, 1, 1, 0.0), (1, 1, 2, 0.0)]))
    none = np.zeros(0, np.float32)
    with pytest.raises(ExecutionError, match="empty"):
        LabelLattice.of(Lattice(Fst.empty(), none, none, no_strings(0), no_strings(0)))
