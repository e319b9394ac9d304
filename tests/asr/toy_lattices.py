"""Small random lattices, and strings of lists."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnet3.base.kaldi_io.lattice import Lattice, Strings, no_strings
from nnet3.options import SearchOptions
from nnet3.speech.lattices.label_lattice import LabelLattice
from nnet3.speech.lattices.raw_lattice import RawLattice
from nnet3.speech.lattices.word_lattice import word_lattice
from nnet3.speech.search.beam_search import BeamSearch
from nnet3.speech.search.search_graph import SearchGraph
from tests.asr.slow_search import random_graph
from tests.seeds import RANDOM


def strings_of(lists: Sequence[Sequence[int]]) -> Strings:
    offsets = np.append(0, np.cumsum([len(each) for each in lists], dtype=np.int64))
    return Strings(offsets, np.array([value for each in lists for value in each], np.int32))


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
    graph, acoustic = RANDOM.random(len(src)), RANDOM.normal(size=len(src))
    arcs = {"src": src, "dst": dst, "word": word, "transition_id": emits * 1, "graph_cost": graph}
    return RawLattice.sorted(row_of, **arcs, acoustic_cost=acoustic, final_graph=final, graph_state=row_of)


def many_paths(steps: int) -> LabelLattice:
    """Arcs of two words, each of a phone of its own (2, 4 in `toy_phones`), lead from each state to the next."""
    src, none = np.repeat(np.arange(steps), 2), no_strings(steps + 1)
    final = np.append(np.full(steps, np.inf), 0.0)
    costs = np.tile([0.0, 1.0], steps), np.zeros(2 * steps)
    words = np.tile([1, 2], steps)
    return LabelLattice(
        np.arange(steps + 1), src, src + 1, words, *costs, strings_of([[4], [8]] * steps), final, final, none
    )


def random_word_lattice() -> Lattice:
    search = BeamSearch(SearchGraph(random_graph(RANDOM)), SearchOptions(beam=1000, lattice_beam=4))
    search.advance(RANDOM.normal(size=(4, 4)).astype(np.float32))
    raw = search.lattice()
    assert raw is not None
    return word_lattice(raw, 4).lattice
