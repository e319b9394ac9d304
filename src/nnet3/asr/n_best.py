"""The best paths of a lattice of words, with times."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nnet3.asr.arrays import Integers
from nnet3.asr.lattice_path import LatticePath, best_paths
from nnet3.asr.word_times import WordBoundaries, rows_of_states
from nnet3.kaldi_io.lattice import Lattice


class Alternative(NamedTuple):
    """A path: its cost, and its words with their first rows and the rows behind them."""

    cost: float
    words: list[tuple[int, int, int]]


def n_best(
    lattice: Lattice, number: int, graph_scale: float = 1.0, boundaries: WordBoundaries | None = None
) -> list[Alternative]:
    """Returns the best paths, the best one first; all have different words if the lattice comes from `word_lattice`."""
    rows = rows_of_states(lattice)
    found = best_paths(lattice, number, graph_scale)
    return [Alternative(path.cost, _timed(path, rows, boundaries)) for path in found]


def _timed(path: LatticePath, rows: Integers, boundaries: WordBoundaries | None) -> list[tuple[int, int, int]]:
    """Returns the words of a path with their rows."""
    fst = path.lattice.fst
    spoken = path.arcs[fst.ilabel[path.arcs] > 0]
    begin, end = rows[fst.src[spoken]], rows[fst.dst[spoken]]
    if boundaries is not None and len(spoken):
        ids = np.tile(path.transition_ids, (len(spoken), 1))
        found, behind = boundaries.words(ids, np.arange(len(spoken)))
        begin, end = np.where(found >= 0, found, begin), np.where(found >= 0, behind, end)
    return list(zip(fst.ilabel[spoken].tolist(), begin.tolist(), end.tolist(), strict=True))
