"""The best paths of a lattice of words."""

from __future__ import annotations

import heapq
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nnet3.asr.raw_lattice import longest_paths
from nnet3.asr.word_times import WordBoundaries, rows_of_states
from nnet3.kaldi_io.lattice import Lattice, Strings

Integers = npt.NDArray[np.integer]


class Alternative(NamedTuple):
    """A path: its cost, and its words with their first rows and the rows behind them."""

    cost: float
    words: list[tuple[int, int, int]]


_Path = tuple[Any, ...]  # the path before, and an arc; () at the start
_OVER = -1


def n_best(
    lattice: Lattice, number: int, graph_scale: float = 1.0, boundaries: WordBoundaries | None = None
) -> list[Alternative]:
    """Returns the best paths, the best one first; all have different words if the lattice comes from `word_lattice`."""
    fst = lattice.fst
    cost = graph_scale * fst.cost.astype(np.float64) + lattice.acoustic_cost
    is_final = fst.final < np.inf
    final = np.where(is_final, graph_scale * fst.final.astype(np.float64) + lattice.final_acoustic_cost, np.inf)
    ahead, depth = final.copy(), longest_paths(fst.num_states, fst.src, fst.dst)
    for level in range(int(depth.max(initial=0)) - 1, -1, -1):
        arcs = np.flatnonzero(depth[fst.src] == level)
        np.minimum.at(ahead, fst.src[arcs], cost[arcs] + ahead[fst.dst[arcs]])
    found: list[Alternative] = []
    heap: list[tuple[float, int, float, int, _Path]] = []  # total cost, a number against ties, cost so far, state, path
    if fst.num_states and np.isfinite(ahead[fst.start]):
        heap.append((float(ahead[fst.start]), 0, 0.0, fst.start, ()))
    rows, pushed = rows_of_states(lattice), 0
    while heap and len(found) < number:
        total, _, so_far, state, path = heapq.heappop(heap)
        if state == _OVER:
            found.append(Alternative(total, _timed(lattice, path, rows, boundaries)))
            continue
        arcs = np.arange(fst.offsets[state], fst.offsets[state + 1])
        ways = [
            (so_far + float(cost[arc]) + float(ahead[fst.dst[arc]]), so_far + float(cost[arc]), int(fst.dst[arc]), arc)
            for arc in arcs[ahead[fst.dst[arcs]] < np.inf].tolist()
        ]
        if is_final[state]:
            ways.append((so_far + float(final[state]), so_far, _OVER, state))
        for estimate, cost_behind, target, step in ways:
            pushed += 1
            heapq.heappush(heap, (estimate, pushed, cost_behind, target, (path, step)))
    return found


def _timed(
    lattice: Lattice, path: _Path, rows: Integers, boundaries: WordBoundaries | None
) -> list[tuple[int, int, int]]:
    """Returns the words of a path, whose last step is not an arc but the state where it ends, with their rows."""
    path, state = path
    steps = []
    while path:
        path, arc = path
        steps.append(arc)
    arcs = np.array(steps[::-1], np.int64)
    spoken = arcs[lattice.fst.ilabel[arcs] > 0]
    begin, end = rows[lattice.fst.src[spoken]], rows[lattice.fst.dst[spoken]]
    if boundaries is not None and len(spoken):
        parts = [_string(lattice.transition_ids, arc) for arc in arcs.tolist()]
        ids = np.concatenate([*parts, _string(lattice.final_transition_ids, state)])
        found, behind = boundaries.words(np.tile(ids, (len(spoken), 1)), np.arange(len(spoken)))
        begin, end = np.where(found >= 0, found, begin), np.where(found >= 0, behind, end)
    return list(zip(lattice.fst.ilabel[spoken].tolist(), begin.tolist(), end.tolist(), strict=True))


def _string(strings: Strings, number: int) -> Integers:
    return strings.values[strings.offsets[number] : strings.offsets[number + 1]]
